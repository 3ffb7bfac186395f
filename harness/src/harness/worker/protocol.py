"""What is said on the control socket, a message a packet: constants, and one rule of both sides.

Supervisor to worker: SETUP + what it is to be, as JSON, with at most one descriptor, which a
builder writes to and a worker reads what was built from, or with those that worker.capture names;
CASE + the layout of two shared memories as JSON, with their two descriptors; GO + nonce + the
leaves that are no tensors as JSON; PACK with one descriptor, to pack the compile cache into; WARM,
to import the profiler; PROFILE + nonce + leaves with two descriptors, for a trace and a table; and
PROBE to a bare null worker.
Worker to supervisor: READY; DONE + nonce, then [[output, dtype, shape], ...] as JSON of an answer
that looks otherwise than it was asked for, where it may; ARMED + nonce, from a GPU alone; FAILED +
{"kind", "text"} as JSON; DONE + microseconds to PROBE.
Anything else ends the run with the verdict `protocol`.
"""

from collections.abc import Sequence

READY = b"R"
DONE = b"D"
ARMED = b"A"
FAILED = b"F"
SETUP = b"S"
CASE = b"C"
GO = b"G"
PACK = b"P"
PROFILE = b"T"
WARM = b"W"
PROBE = b"M"

NONCE_BYTES = 16
SCALARS_BYTES_MAX = 4096
LAYOUT_BYTES_MAX = 128 * 1024
ANSWER_BYTES_MAX = 32 * 1024
TEXT_CHARS_MAX = 2000

# What a profiler may hand over: ncu's report, its page to read, its table.
REPORT_BYTES_MAX = 32 * 1024**2
PAGE_BYTES_MAX = 256 * 1024
CSV_BYTES_MAX = 4 * 1024**2

FAILURE_KINDS = ("compile_error", "import_error", "exception", "output", "memory")

# The codes of `wb_dtype` in warpboard.h.
DTYPES = {
    "bool": 0,
    "uint8": 1,
    "int8": 2,
    "int16": 3,
    "int32": 4,
    "int64": 5,
    "float16": 6,
    "bfloat16": 7,
    "float32": 8,
    "float64": 9,
    "complex64": 10,
    "complex128": 11,
    "float8_e4m3fn": 12,
    "float8_e5m2": 13,
    "float8_e4m3fnuz": 14,
    "float8_e5m2fnuz": 15,
    "uint16": 16,
    "uint32": 17,
    "uint64": 18,
    "float8_e8m0fnu": 19,
    "float4_e2m1fn_x2": 20,
}

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
