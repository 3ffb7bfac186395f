"""The messages of the control socket, one per packet, and one rule that both sides share.

Supervisor to worker: SETUP + the worker's role as JSON, which a worker that first only opens its
GPU's context gets in a second message, with at most one descriptor, which a
builder writes to and a worker loads the build result from, or with those that run_capture and
list_kernels name;
CASE + the layout of two shared memories as JSON, with their two descriptors; GO + nonce + the
non-tensor leaves as JSON; PACK with one descriptor, to pack what it built into; WARM, to import
the profiler; PROFILE + nonce + leaves with two descriptors, for a trace and a table; RECORD + nonce
+ leaves with one descriptor, for the operators and kernels of the call. Worker to supervisor:
READY; DONE + nonce, then [[output, dtype, shape], ...] as JSON if the answer has another form than
requested, where that is allowed; ARMED + nonce, from a GPU only; FAILED + {"kind", "text"} as JSON.
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
RECORD = b"O"

NONCE_BYTES = 16
SCALARS_BYTES_MAX = 4096
LAYOUT_BYTES_MAX = 128 * 1024
ANSWER_BYTES_MAX = 32 * 1024
TEXT_CHARS_MAX = 2000
_GAP = "\n[…]\n"

# Limits for what a profiler returns: ncu's report, its text page, its table.
REPORT_BYTES_MAX = 32 * 1024**2
PAGE_BYTES_MAX = 256 * 1024
CSV_BYTES_MAX = 4 * 1024**2
# The role of a capture that profiles a kernel of the platform instead of a submission.
PROBE_ROLE = {"is_probe": True}
# The operators and kernels of one call.
RECORD_BYTES_MAX = 1024**2
RECORD_ROWS_MAX, RECORD_NAME_CHARS_MAX = 64, 160
# For each text about the GPU kernels of a build result.
LISTING_BYTES_MAX = 1024**2

FAILURE_KINDS = ("compile_error", "import_error", "exception", "output", "memory")


class SubmissionFailure(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """The submission failed: `kind` is one of FAILURE_KINDS, `text` is for people."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind
        self.text = _shorten(text)


def _shorten(text: str) -> str:
    """Return the beginning and the end of a text that is too long."""
    if len(text) <= TEXT_CHARS_MAX:
        return text
    half = TEXT_CHARS_MAX // 2
    return text[:half] + _GAP + text[half + len(_GAP) - TEXT_CHARS_MAX :]


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

# The widest dtype of each kind first: an answer may be narrower, so that it always fits.
_KINDS = (
    ("float64", "float32", "float16"),
    ("float64", "float32", "bfloat16"),
    ("complex128", "complex64"),
    ("int64", "int32", "int16", "int8"),
    ("int64", "int32", "int16", "uint8"),
)
_ONES_MAX = 8


def is_compatible_answer(
    dtype: str, shape: Sequence[int], answer_dtype: str, answer_shape: Sequence[int]
) -> bool:
    """Return whether an answer differs only by a narrower dtype and leading ones.

    With another size, or ones elsewhere, a check that broadcasts could be tricked into computing
    far more than it was written for, or far less.

    >>> is_compatible_answer("float64", (9,), "float32", (9,)), is_compatible_answer("float32",
    ...     (), "float32", (1,))
    (True, True)
    >>> is_compatible_answer("float32", (9,), "float64", (9,)), is_compatible_answer("float32",
    ...     (9,), "float32", (9, 1))
    (False, False)
    >>> is_compatible_answer("float64", (9,), "int32", (9,)), is_compatible_answer("float32", (1,
    ...     9), "float32", (9,))
    (False, True)
    """
    has_same_lengths = len(answer_shape) <= len(shape) + _ONES_MAX and _strip_leading_ones(
        shape
    ) == _strip_leading_ones(answer_shape)
    is_narrower = any(
        dtype in kind and answer_dtype in kind and kind.index(answer_dtype) >= kind.index(dtype)
        for kind in _KINDS
    )
    return has_same_lengths and (answer_dtype == dtype or is_narrower)


def _strip_leading_ones(shape: Sequence[int]) -> list[int]:
    lengths = list(shape)
    while lengths and lengths[0] == 1:
        lengths.pop(0)
    return lengths
