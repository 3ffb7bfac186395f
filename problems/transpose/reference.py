"""A matrix with rows and columns exchanged."""

import torch
from task import input_t, output_t
from utils import get_device


def generate_input(rows: int, cols: int, seed: int) -> input_t:
    """A matrix of float32 from [-1, 1), and a buffer for its transposition."""
    device = get_device()
    generator = torch.Generator(device).manual_seed(seed)
    x = torch.empty(rows, cols, device=device).uniform_(-1, 1, generator=generator)
    return x, torch.zeros(cols, rows, device=device)


def ref_kernel(data: input_t) -> output_t:
    """Copies with torch."""
    x, output = data
    return output.copy_(x.T)


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    """Compares exactly: values are moved and not computed."""
    x, buffer = data
    if output.dtype != buffer.dtype or output.shape != buffer.shape:
        return False, f"got {output.dtype} {list(output.shape)}, expected {list(buffer.shape)}"
    # Compared in the layout of the input, which is the cheaper way round.
    wrong = x != output.T
    count = int(wrong.sum())
    if count == 0:
        return True, ""
    row, column = divmod(int(wrong.flatten().to(torch.uint8).argmax()), x.shape[1])
    pair = f"got {output[column, row].item()}, expected {x[row, column].item()}"
    return False, f"{count} of {wrong.numel()} values differ, one at [{column}, {row}]: {pair}"
