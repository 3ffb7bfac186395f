"""The values that are at least a threshold, in their order, and how many they are."""

import torch
from task import input_t, output_t
from utils import get_device

LEVELS = 1000


def generate_input(size: int, threshold: int, seed: int) -> input_t:
    """Whole numbers from 0 to 999, the threshold, and two buffers."""
    device = get_device()
    generator = torch.Generator(device).manual_seed(seed)
    x = torch.randint(LEVELS, (size,), generator=generator, device=device, dtype=torch.int32)
    return x, threshold, torch.zeros_like(x), torch.zeros(1, dtype=torch.int32, device=device)


def ref_kernel(data: input_t) -> output_t:
    """Picks with torch."""
    x, threshold, kept, count = data
    chosen = x[x >= threshold]
    kept[: len(chosen)] = chosen
    kept[len(chosen) :] = 0
    return kept, count.fill_(len(chosen))


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    """Compares exactly, the zeros behind the kept values too."""
    x, threshold, *buffers = data
    wanted = ref_kernel((x, threshold, *map(torch.empty_like, buffers)))
    for name, got, want in zip(("kept", "count"), output, wanted, strict=True):
        if got.dtype != want.dtype or got.shape != want.shape:
            return False, f"{name}: got {got.dtype} {list(got.shape)}, expected {list(want.shape)}"
        wrong = got != want
        if total := int(wrong.sum()):
            first = int(wrong.to(torch.uint8).argmax())
            pair = f"got {got[first].item()}, expected {want[first].item()}"
            return False, f"{name}: {total} of {len(wrong)} differ, the first at {first}: {pair}"
    return True, ""
