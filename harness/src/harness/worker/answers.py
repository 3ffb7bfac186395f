"""Which answers a problem may leave to its own check, though the reference's looks otherwise.

The rule is asked of by the worker, to say early what cannot be, and by the supervisor, which
believes no worker.
"""

from collections.abc import Sequence

# Of each kind the widest first: an answer may be narrower, so it fits where the reference's does.
_KINDS = (
    ("float64", "float32", "float16"),
    ("float64", "float32", "bfloat16"),
    ("complex128", "complex64"),
    ("int64", "int32", "int16", "int8"),
    ("int64", "int32", "int16", "uint8"),
)
_ONES_MAX = 8


def is_alike(dtype: str, shape: Sequence[int], got: str, got_shape: Sequence[int]) -> bool:
    """Whether an answer differs by a narrower dtype and by ones in front of its shape alone.

    Were it of another size, or of ones elsewhere, a check that broadcasts could be had to compute
    far more than it was written for, or far less.

    >>> is_alike("float64", (9,), "float32", (9,)), is_alike("float32", (), "float32", (1,))
    (True, True)
    >>> is_alike("float32", (9,), "float64", (9,)), is_alike("float32", (9,), "float32", (9, 1))
    (False, False)
    >>> is_alike("float64", (9,), "int32", (9,)), is_alike("float32", (1, 9), "float32", (9,))
    (False, True)
    """
    is_kept = len(got_shape) <= len(shape) + _ONES_MAX and _bare(shape) == _bare(got_shape)
    is_narrower = any(
        dtype in kind and got in kind and kind.index(got) >= kind.index(dtype) for kind in _KINDS
    )
    return is_kept and (got == dtype or is_narrower)


def _bare(shape: Sequence[int]) -> list[int]:
    """A shape without the ones in front."""
    found = list(shape)
    while found and found[0] == 1:
        found.pop(0)
    return found
