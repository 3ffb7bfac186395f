"""The matrix product, taken in float64."""

import torch
from task import input_t, output_t
from utils import get_device

# Seventeen roundings' worth for each term; statement.md says why.
ATOL_PER_TERM = 1e-6


def generate_input(m: int, n: int, k: int, seed: int) -> input_t:
    """Two matrices of float32 from [-1, 1), and a buffer for their product."""
    device = get_device()
    generator = torch.Generator(device).manual_seed(seed)
    a = torch.empty(m, k, device=device).uniform_(-1, 1, generator=generator)
    b = torch.empty(k, n, device=device).uniform_(-1, 1, generator=generator)
    return a, b, torch.zeros(m, n, device=device)


def ref_kernel(data: input_t) -> output_t:
    """The product in float64, rounded once."""
    a, b, output = data
    return output.copy_(a.double() @ b.double())


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    """Compares with the float64 product; the bound grows with the number of terms."""
    a, b, buffer = data
    if output.dtype != buffer.dtype or output.shape != buffer.shape:
        return False, f"got {output.dtype} {list(output.shape)}, expected {list(buffer.shape)}"
    want = a.double() @ b.double()
    atol = ATOL_PER_TERM * a.shape[1]
    # A NaN is not <= anything, so it counts as wrong.
    wrong = ~((output - want).abs() <= atol)
    count = int(wrong.sum())
    if count == 0:
        return True, ""
    row, column = divmod(int(wrong.flatten().to(torch.uint8).argmax()), want.shape[1])
    got, expected = output[row, column].item(), want[row, column].item()
    pair = f"got {got}, expected {expected} within {atol:.1e}"
    return False, f"{count} of {want.numel()} values differ, the first at [{row}, {column}]: {pair}"
