"""The residual sum and its RMS normalisation, with one rounding to bfloat16 for each."""

import torch
from task import input_t, output_t
from utils import get_device

EPS = 1e-6
# A value rounded once to the eight bits of bfloat16 is off by at most 2^-8 of itself; a tenth more
# is left to float32 on the way. Two roundings can be off by twice as much.
RTOL = 1.1 * 2.0**-8
ATOL = 1e-6


def generate_input(tokens: int, hidden: int, seed: int) -> input_t:
    """Normal numbers, a wider residual stream, weights around 1, and a buffer; all bfloat16."""
    device = get_device()
    generator = torch.Generator(device).manual_seed(seed)
    x = torch.empty(tokens, hidden, device=device).normal_(0, 1, generator=generator)
    residual = torch.empty(tokens, hidden, device=device).normal_(0, 3, generator=generator)
    weight = torch.empty(hidden, device=device).uniform_(0.5, 1.5, generator=generator)
    given = [tensor.to(torch.bfloat16) for tensor in (x, residual, weight)]
    return *given, torch.zeros_like(given[0])


def ref_kernel(data: input_t) -> output_t:
    """Both in float64, rounded once."""
    x, residual, weight, output = data
    residual.copy_(x.double() + residual.double())
    return residual, output.copy_(normalised(residual, weight))


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    """Compares the sum with the exact one, and the norm with that of the sum as it was rounded."""
    x, residual, weight, buffer = data
    total, norm = output
    if (total.dtype, norm.dtype) != (buffer.dtype, buffer.dtype):
        return False, f"got {total.dtype} and {norm.dtype}, expected bfloat16"
    if not total.shape == norm.shape == buffer.shape:
        return False, f"got {list(total.shape)} and {list(norm.shape)}, expected that of x"
    exact = x.double() + residual.double()
    if reason := difference("residual", total, exact):
        return False, reason
    reason = difference("output", norm, normalised(total, weight))
    return not reason, reason


def normalised(total: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The norm in float64 of a sum in bfloat16."""
    wide = total.double()
    return wide * torch.rsqrt(wide.square().mean(1, keepdim=True) + EPS) * weight.double()


def difference(name: str, got: torch.Tensor, want: torch.Tensor) -> str:
    """What is wrong, empty if nothing is: |got - want| <= ATOL + RTOL * |want|."""
    # A NaN is not <= anything, so it counts as wrong.
    wrong = ~((got.double() - want).abs() <= ATOL + RTOL * want.abs())
    count = int(wrong.sum())
    if count == 0:
        return ""
    row, column = wrong.nonzero()[0].tolist()
    pair = f"got {got[row, column].item()}, expected {want[row, column].item()}"
    return f"{name}: {count} of {wrong.numel()} differ, the first at [{row}, {column}]: {pair}"
