"""The running sums of a vector."""

import torch
from task import input_t, output_t
from utils import get_device


def generate_input(size: int, seed: int) -> input_t:
    """Whole numbers that are more often positive, and a buffer for their running sums."""
    device = get_device()
    generator = torch.Generator(device).manual_seed(seed)
    x = torch.empty(size, dtype=torch.int32, device=device)
    x.random_(-(2**30), 2**31 - 1, generator=generator)
    return x, torch.zeros(size, dtype=torch.int64, device=device)


def ref_kernel(data: input_t) -> output_t:
    """Sums with torch."""
    x, output = data
    return torch.cumsum(x, 0, dtype=torch.int64, out=output)


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    """Compares exactly: sums of whole numbers have no rounding."""
    x, buffer = data
    if output.dtype != buffer.dtype or output.shape != buffer.shape:
        return False, f"got {output.dtype} {list(output.shape)}, expected int64 {list(x.shape)}"
    want = torch.cumsum(x, 0, dtype=torch.int64)
    wrong = output != want
    count = int(wrong.sum())
    if count == 0:
        return True, ""
    first = int(wrong.to(torch.uint8).argmax())
    pair = f"got {output[first].item()}, expected {want[first].item()}"
    return False, f"{count} of {len(wrong)} sums differ, the first at {first}: {pair}"
