"""Values rounded to eight-bit floats, with a power of two as the scale of each block."""

import torch
from task import input_t, output_t
from utils import get_device

BLOCK = 128
# The largest e4m3 is 448 = 0.875 * 2^9.
LARGEST_MANTISSA = 0.875
LARGEST_EXPONENT = 9


def generate_input(rows: int, cols: int, spread: int, seed: int) -> input_t:
    """Cubes of normal numbers, each block times a power of two of its own, and two buffers.

    They hold eight bits, as bfloat16 does, so that many lie in the middle between two codes.
    """
    device = get_device()
    generator = torch.Generator(device).manual_seed(seed)
    blocks = -(-cols // BLOCK)
    x = torch.empty(rows, cols, device=device).normal_(0, 1, generator=generator)
    powers = torch.randint(
        -spread, spread + 1, (rows, blocks), generator=generator, device=device, dtype=torch.int32
    )
    # In one block of the first row there is nothing but zeros.
    powers_of_values = powers.repeat_interleave(BLOCK, dim=1)[:, :cols]
    x = torch.ldexp((x**3).to(torch.bfloat16).float(), powers_of_values)
    if blocks > 1:
        x[0, :BLOCK] = 0
    codes = torch.zeros(rows, cols, dtype=torch.uint8, device=device)
    return x, codes, torch.zeros(rows, blocks, dtype=torch.int8, device=device)


def ref_kernel(data: input_t) -> output_t:
    """Both from the largest magnitude of each block."""
    x, codes, exponents = data
    found = expected_exponents(x)
    exponents.copy_(found)
    # A power of two from its bits: ldexp takes one from a pow, which a GPU may round.
    scales = ((127 - found) << 23).view(torch.float32).repeat_interleave(BLOCK, dim=1)
    scaled = x * scales[:, : x.shape[1]]
    return codes.copy_(scaled.to(torch.float8_e4m3fn).view(torch.uint8)), exponents


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    """Compares exactly, the sign of a zero too."""
    x, *buffers = data
    wanted = ref_kernel((x, *map(torch.empty_like, buffers)))
    for name, got, want in zip(("codes", "exponents"), output, wanted, strict=True):
        if got.dtype != want.dtype or got.shape != want.shape:
            return False, f"{name}: got {got.dtype} {list(got.shape)}, expected {list(want.shape)}"
        wrong = got != want
        if count := int(wrong.sum()):
            row, column = divmod(int(wrong.flatten().to(torch.uint8).argmax()), want.shape[1])
            pair = f"got {got[row, column].item()}, expected {want[row, column].item()}"
            where = f"the first at [{row}, {column}]: {pair}"
            return False, f"{name}: {count} of {wrong.numel()} differ, {where}"
    return True, ""


def expected_exponents(x: torch.Tensor) -> torch.Tensor:
    """For each block the least e for which its largest magnitude is at most 448 * 2^e, as int32."""
    rows, cols = x.shape
    blocks = -(-cols // BLOCK)
    padded = torch.nn.functional.pad(x.abs(), (0, blocks * BLOCK - cols))
    largest = padded.view(rows, blocks, BLOCK).amax(2)
    mantissa, exponent = torch.frexp(largest)
    least = exponent - LARGEST_EXPONENT + (mantissa > LARGEST_MANTISSA).int()
    return torch.where(largest > 0, least, 0).int()
