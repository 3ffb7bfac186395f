"""Some generations of the Game of Life on a torus."""

import torch
from task import input_t, output_t
from utils import get_device


def generate_input(height: int, width: int, steps: int, seed: int) -> input_t:
    """Cells of which three in eight live, the number of generations, and a buffer."""
    device = get_device()
    generator = torch.Generator(device).manual_seed(seed)
    cells = torch.empty(height, width, dtype=torch.uint8, device=device)
    cells = (cells.random_(0, 8, generator=generator) < 3).to(torch.uint8)
    return cells, steps, torch.zeros_like(cells)


def ref_kernel(data: input_t) -> output_t:
    """A generation after the other, by shifted copies."""
    cells, steps, output = data
    for _ in range(steps):
        rows = cells + cells.roll(1, 0) + cells.roll(-1, 0)
        total = rows + rows.roll(1, 1) + rows.roll(-1, 1)
        # With the cell itself in the sum: three, or four with a living cell in the middle.
        cells = ((total == 3) | ((total == 4) & (cells == 1))).to(torch.uint8)
    return output.copy_(cells)


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    """Compares exactly."""
    cells, steps, buffer = data
    if output.dtype != buffer.dtype or output.shape != buffer.shape:
        return False, f"got {output.dtype} {list(output.shape)}, expected {list(buffer.shape)}"
    want = ref_kernel((cells, steps, torch.empty_like(buffer)))
    wrong = output != want
    count = int(wrong.sum())
    if count == 0:
        return True, ""
    row, column = divmod(int(wrong.flatten().to(torch.uint8).argmax()), want.shape[1])
    pair = f"got {output[row, column].item()}, expected {want[row, column].item()}"
    return False, f"{count} of {want.numel()} cells differ, the first at [{row}, {column}]: {pair}"
