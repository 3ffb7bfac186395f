"""The smallest and the largest value of each row, and the first place of each."""

import torch
from task import input_t, output_t
from utils import get_device

NAMES = ("low", "high", "low_at", "high_at")


def generate_input(rows: int, cols: int, levels: int, seed: int) -> input_t:
    """Whole numbers around 0, as float32, and four buffers; few levels make many ties."""
    device = get_device()
    generator = torch.Generator(device).manual_seed(seed)
    shape = (rows, cols)
    numbers = torch.randint(levels, shape, generator=generator, device=device, dtype=torch.int32)
    buffers = [torch.zeros(rows, dtype=torch.float32, device=device) for _ in range(2)]
    places = [torch.zeros(rows, dtype=torch.int32, device=device) for _ in range(2)]
    return (numbers - levels // 2).float(), *buffers, *places


def ref_kernel(data: input_t) -> output_t:
    """Whole rows, by torch."""
    x, low, high, low_at, high_at = data
    for buffer, answer in zip((low, high, low_at, high_at), expected(x), strict=True):
        buffer.copy_(answer)
    return low, high, low_at, high_at


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    """Compares exactly: nothing is rounded, and of equal values the first counts."""
    x, *buffers = data
    for name, got, buffer, want in zip(NAMES, output, buffers, expected(x), strict=True):
        if got.dtype != buffer.dtype or got.shape != buffer.shape:
            return False, f"{name}: got {got.dtype} {list(got.shape)}, expected {buffer.dtype}"
        wrong = got != want
        if count := int(wrong.sum()):
            row = int(wrong.to(torch.uint8).argmax())
            pair = f"got {got[row].item()}, expected {want[row].item()}"
            return False, f"{name}: {count} of {len(wrong)} differ, the first in row {row}: {pair}"
    return True, ""


def expected(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The four answers; torch promises that argmin and argmax give the first place."""
    low, high = torch.aminmax(x, dim=1)
    return low, high, x.argmin(1).int(), x.argmax(1).int()
