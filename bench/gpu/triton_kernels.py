"""A kernel of Triton's, in a file of its own, since Triton reads the source."""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, N803

import triton
import triton.language as tl


@triton.jit
def answer(given, out, count, SIZE: tl.constexpr):
    """2 x + 1."""
    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    value = tl.load(given + at, mask=at < count)
    tl.store(out + at, value * 2 + 1, mask=at < count)
