"""The gated activation of a feed-forward block, rounded once to bfloat16."""

import torch
from task import input_t, output_t
from utils import get_device

# A value rounded once to bfloat16 is off by at most 2^-8 of itself; a tenth more is left to
# float32 on the way, and ATOL to results that hardly any format holds.
RTOL = 1.1 * 2.0**-8
ATOL = 1e-30


def generate_input(tokens: int, inner: int, scale: float, seed: int) -> input_t:
    """Normal numbers of deviation `scale`, gate and up side by side, and a buffer."""
    device = get_device()
    generator = torch.Generator(device).manual_seed(seed)
    x = torch.empty(tokens, 2 * inner, device=device).normal_(0, scale, generator=generator)
    return x.to(torch.bfloat16), torch.zeros(tokens, inner, dtype=torch.bfloat16, device=device)


def ref_kernel(data: input_t) -> output_t:
    """In float64, rounded once."""
    x, output = data
    return output.copy_(expected(x))


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    """Compares with float64: |y - want| <= ATOL + RTOL * |want|."""
    x, buffer = data
    if output.dtype != buffer.dtype or output.shape != buffer.shape:
        return False, f"got {output.dtype} {list(output.shape)}, expected {list(buffer.shape)}"
    want = expected(x)
    # A NaN is not <= anything, so it counts as wrong.
    wrong = ~((output.double() - want).abs() <= ATOL + RTOL * want.abs())
    count = int(wrong.sum())
    if count == 0:
        return True, ""
    row, column = wrong.nonzero()[0].tolist()
    pair = f"got {output[row, column].item()}, expected {want[row, column].item()}"
    return (
        False,
        f"{count} of {wrong.numel()} values differ, the first at [{row}, {column}]: {pair}",
    )


def expected(x: torch.Tensor) -> torch.Tensor:
    """The product in float64."""
    gate, up = x.double().chunk(2, dim=1)
    return gate * torch.sigmoid(gate) * up
