"""How many steps points of the plane stay in a circle, in fixed point."""

import torch
from task import input_t, output_t
from utils import get_device

BITS = 24
ONE = 1 << BITS
# The circle of radius 2, squared, in products of two numbers of fixed point.
FAR = 4 << (2 * BITS)


def generate_input(size: int, steps: int, seed: int) -> input_t:
    """Points in a box around the set whose points stay for ever, the limit, and a buffer."""
    device = get_device()
    generator = torch.Generator(device).manual_seed(seed)
    points = torch.empty(size, 2, dtype=torch.int32, device=device)
    points[:, 0].random_(-2 * ONE, ONE // 2, generator=generator)
    points[:, 1].random_(-ONE, ONE, generator=generator)
    return points, steps, torch.zeros(size, dtype=torch.int32, device=device)


def ref_kernel(data: input_t) -> output_t:
    """All points at once; those that have left go on as 0, which never leaves again."""
    points, steps, output = data
    here = torch.arange(len(points), device=points.device)
    a, b = points.long().unbind(1)
    real, imaginary = torch.zeros_like(a), torch.zeros_like(b)
    output.fill_(steps)
    for step in range(steps):
        square, other = real * real, imaginary * imaginary
        stays = square + other <= FAR
        output[here[~stays]] = step
        here, a, b = here[stays], a[stays], b[stays]
        product = real[stays] * imaginary[stays]
        real = ((square - other)[stays] >> BITS) + a
        imaginary = (product >> (BITS - 1)) + b
    return output


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    """Compares exactly: the rounding of every step is part of the problem."""
    points, steps, buffer = data
    if output.dtype != buffer.dtype or output.shape != buffer.shape:
        return False, f"got {output.dtype} {list(output.shape)}, expected {list(buffer.shape)}"
    want = ref_kernel((points, steps, torch.empty_like(buffer)))
    wrong = output != want
    count = int(wrong.sum())
    if count == 0:
        return True, ""
    first = int(wrong.to(torch.uint8).argmax())
    pair = f"got {output[first].item()}, expected {want[first].item()}"
    return False, f"{count} of {len(wrong)} counts differ, the first at {first}: {pair}"
