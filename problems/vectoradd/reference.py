"""The sum of two vectors, each value rounded once."""

import torch
from task import input_t, output_t
from utils import get_device


def generate_input(size: int, seed: int) -> input_t:
    """Two vectors of float32 from [-1, 1), and a buffer for their sum."""
    device = get_device()
    generator = torch.Generator(device).manual_seed(seed)
    a = torch.empty(size, device=device).uniform_(-1, 1, generator=generator)
    b = torch.empty(size, device=device).uniform_(-1, 1, generator=generator)
    return a, b, torch.zeros_like(a)


def ref_kernel(data: input_t) -> output_t:
    """Adds with torch."""
    a, b, output = data
    return torch.add(a, b, out=output)


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    """Compares exactly: one addition has one correctly rounded result, on every device."""
    a, b, _ = data
    if output.dtype != a.dtype or output.shape != a.shape:
        return False, f"got {output.dtype} {list(output.shape)}, expected that of the inputs"
    want = a + b
    if torch.equal(output, want):
        return True, ""
    wrong = output != want
    first = int(wrong.to(torch.uint8).argmax())
    pair = f"got {output[first].item()}, expected {want[first].item()}"
    return False, f"{int(wrong.sum())} of {len(wrong)} values differ, the first at {first}: {pair}"
