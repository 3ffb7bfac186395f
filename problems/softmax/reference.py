"""The softmax of each row, taken in float64."""

from collections.abc import Iterator

import torch
from task import input_t, output_t
from utils import get_device

# statement.md says why these are enough for float32 and too little for anything shorter.
RTOL = 5e-5
ATOL = 1e-8
# Rows are taken in blocks that stay in a cache: a whole matrix in float64 would be slow.
BLOCK_VALUES = 1 << 16


def generate_input(rows: int, cols: int, scale: float, seed: int) -> input_t:
    """A matrix of normal numbers of standard deviation `scale`, and a buffer of its shape."""
    device = get_device()
    generator = torch.Generator(device).manual_seed(seed)
    x = torch.empty(rows, cols, device=device).normal_(0, scale, generator=generator)
    return x, torch.zeros_like(x)


def ref_kernel(data: input_t) -> output_t:
    """The softmax in float64, rounded once."""
    x, output = data
    for rows, expected in expected_blocks(x):
        output[rows] = expected
    return output


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    """Compares with the float64 softmax: |y - s| <= ATOL + RTOL * s."""
    x, _ = data
    if output.dtype != x.dtype or output.shape != x.shape:
        return False, f"got {output.dtype} {list(output.shape)}, expected that of the input"
    for rows, expected in expected_blocks(x):
        error = (output[rows] - expected).abs()
        # A NaN is not <= anything, so it counts as wrong.
        if not bool((error <= ATOL + RTOL * expected).all()):
            return False, difference(output[rows], expected, rows.start)
    return True, ""


def expected_blocks(x: torch.Tensor) -> Iterator[tuple[slice, torch.Tensor]]:
    """The expected output in float64, a block of rows at a time."""
    height = max(1, BLOCK_VALUES // x.shape[1])
    for start in range(0, x.shape[0], height):
        rows = slice(start, min(start + height, x.shape[0]))
        yield rows, torch.softmax(x[rows].double(), dim=1)


def difference(got: torch.Tensor, want: torch.Tensor, start: int) -> str:
    """What is wrong in a block that begins at row `start`."""
    wrong = ~((got - want).abs() <= ATOL + RTOL * want)
    row, column = divmod(int(wrong.flatten().to(torch.uint8).argmax()), want.shape[1])
    pair = f"got {got[row, column].item()}, expected {want[row, column].item()}"
    where = f"rows {start} to {start + len(want) - 1}"
    count = f"{int(wrong.sum())} of {wrong.numel()} values differ in {where}"
    return f"{count}, the first at [{start + row}, {column}]: {pair}"
