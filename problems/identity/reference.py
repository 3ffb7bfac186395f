"""The identity: the output has the bits of the input."""

import torch
from task import input_t, output_t
from utils import get_device


def generate_input(size: int, seed: int) -> input_t:
    """A vector of float32 from [-1, 1), and a buffer for its copy."""
    device = get_device()
    generator = torch.Generator(device).manual_seed(seed)
    source = torch.empty(size, device=device).uniform_(-1, 1, generator=generator)
    return source, torch.zeros_like(source)


def ref_kernel(data: input_t) -> output_t:
    """Copies with torch."""
    source, output = data
    return output.copy_(source)


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    """Compares bits, so that NaN and the sign of zero count too."""
    source, _ = data
    if output.dtype != source.dtype or output.shape != source.shape:
        return False, f"got {output.dtype} {list(output.shape)}, expected that of the input"
    got, want = output.contiguous().view(torch.int32), source.view(torch.int32)
    if torch.equal(got, want):
        return True, ""
    wrong = got != want
    first = int(wrong.to(torch.uint8).argmax())
    pair = f"got {output[first].item()}, expected {source[first].item()}"
    return False, f"{int(wrong.sum())} of {len(wrong)} values differ, the first at {first}: {pair}"
