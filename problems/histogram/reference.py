"""How often each byte value occurs."""

import torch
from task import input_t, output_t
from utils import get_device

BINS = 256
# Of 256 bytes this many take the one favourite value of a peaked input.
PEAK = 240


def generate_input(size: int, spread: str, seed: int) -> input_t:
    """Bytes that are uniform, skewed to small values and few bits, or mostly one value."""
    device = get_device()
    generator = torch.Generator(device).manual_seed(seed)
    values = random_bytes(size, generator)
    if spread == "skewed":
        values = values & random_bytes(size, generator)
    elif spread == "peaked":
        values = torch.where(random_bytes(size, generator) < PEAK, values[-1], values)
    elif spread != "uniform":
        raise ValueError(f"spread {spread!r} is not uniform, skewed or peaked")
    return values, torch.zeros(BINS, dtype=torch.int32, device=device)


def random_bytes(size: int, generator: torch.Generator) -> torch.Tensor:
    """Uniform bytes, eight from each draw."""
    words = torch.empty((size + 7) // 8, dtype=torch.int64, device=generator.device)
    return words.random_(-(2**63), None, generator=generator).view(torch.uint8)[:size]


def ref_kernel(data: input_t) -> output_t:
    """Counts with torch."""
    values, output = data
    return output.copy_(torch.bincount(values, minlength=BINS))


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    """Compares exactly: counts have no rounding."""
    values, buffer = data
    if output.dtype != buffer.dtype or output.shape != buffer.shape:
        return False, f"got {output.dtype} {list(output.shape)}, expected int32 [{BINS}]"
    want = torch.bincount(values, minlength=BINS)
    wrong = output != want
    count = int(wrong.sum())
    if count == 0:
        return True, ""
    first = int(wrong.to(torch.uint8).argmax())
    pair = f"got {output[first].item()}, expected {want[first].item()}"
    return False, f"{count} of {BINS} counts differ, the first for value {first}: {pair}"
