"""The luma of an image, rounded once."""

from collections.abc import Iterator

import torch
from task import input_t, output_t
from utils import get_device

# statement.md says why this is enough for float32 and too little for anything shorter.
RTOL = 1e-6
# Rows are taken in blocks that stay in a cache.
BLOCK_PIXELS = 1 << 16


def generate_input(height: int, width: int, seed: int) -> input_t:
    """An image of uniform bytes, eight from each draw, and a buffer for its luma."""
    device = get_device()
    generator = torch.Generator(device).manual_seed(seed)
    size = height * width * 3
    words = torch.empty((size + 7) // 8, dtype=torch.int64, device=device)
    values = words.random_(-(2**63), None, generator=generator).view(torch.uint8)[:size]
    return values.view(height, width, 3), torch.zeros(height, width, device=device)


def ref_kernel(data: input_t) -> output_t:
    """The luma, correctly rounded."""
    image, output = data
    for rows, expected in expected_blocks(image):
        output[rows] = expected
    return output


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    """Compares with the correctly rounded luma: |y - g| <= RTOL * g."""
    image, buffer = data
    if output.dtype != buffer.dtype or output.shape != buffer.shape:
        return False, f"got {output.dtype} {list(output.shape)}, expected {list(buffer.shape)}"
    for rows, expected in expected_blocks(image):
        # A NaN is not <= anything, so it counts as wrong.
        if not bool(((output[rows] - expected).abs() <= RTOL * expected).all()):
            return False, difference(output[rows], expected, rows.start)
    return True, ""


def expected_blocks(image: torch.Tensor) -> Iterator[tuple[slice, torch.Tensor]]:
    """The expected output, a block of rows at a time.

    The weighted sums are whole numbers below 2^24, exact in float32; only the division rounds.
    """
    height = max(1, BLOCK_PIXELS // image.shape[1])
    for start in range(0, image.shape[0], height):
        rows = slice(start, min(start + height, image.shape[0]))
        red, green, blue = image[rows].unbind(2)
        luma = red.float().mul_(299).add_(green, alpha=587).add_(blue, alpha=114)
        yield rows, luma.div_(255_000)


def difference(got: torch.Tensor, want: torch.Tensor, start: int) -> str:
    """What is wrong in a block that begins at row `start`."""
    wrong = ~((got - want).abs() <= RTOL * want)
    row, column = divmod(int(wrong.flatten().to(torch.uint8).argmax()), want.shape[1])
    pair = f"got {got[row, column].item()}, expected {want[row, column].item()}"
    where = f"rows {start} to {start + len(want) - 1}"
    count = f"{int(wrong.sum())} of {wrong.numel()} values differ in {where}"
    return f"{count}, the first at [{start + row}, {column}]: {pair}"
