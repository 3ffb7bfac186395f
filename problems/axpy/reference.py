"""A multiple of one vector added to another, in place."""

import torch
from task import input_t, output_t
from utils import get_device

# Two roundings of half a unit in the last place, and a little; statement.md says of what.
RTOL = 2.0**-23


def generate_input(size: int, seed: int) -> input_t:
    """A factor that float32 holds, and two vectors from [-1, 1)."""
    device = get_device()
    generator = torch.Generator(device).manual_seed(seed)
    a = torch.empty(1, device=device).uniform_(-2, 2, generator=generator).item()
    x = torch.empty(size, device=device).uniform_(-1, 1, generator=generator)
    y = torch.empty(size, device=device).uniform_(-1, 1, generator=generator)
    return a, x, y


def ref_kernel(data: input_t) -> output_t:
    """The sum in float64, rounded once into y."""
    a, x, y = data
    return y.copy_(y.double() + a * x.double())


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    """Compares with float64: |got - want| <= RTOL * (|a x| + |y|)."""
    a, x, y = data
    if output.dtype != y.dtype or output.shape != y.shape:
        return False, f"got {output.dtype} {list(output.shape)}, expected that of y"
    product = a * x.double()
    want = y.double() + product
    bound = RTOL * (product.abs() + y.abs())
    # A NaN is not <= anything, so it counts as wrong.
    wrong = ~((output - want).abs() <= bound)
    count = int(wrong.sum())
    if count == 0:
        return True, ""
    first = int(wrong.to(torch.uint8).argmax())
    pair = f"got {output[first].item()}, expected {want[first].item()}"
    return False, f"{count} of {len(wrong)} values differ, the first at {first}: {pair}"
