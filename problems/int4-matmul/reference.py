"""A product with weights of four bits, two to a byte, taken in float64."""

import torch
from task import input_t, output_t
from utils import get_device

# Of the root of the sum of the terms' squares; statement.md says why.
RTOL = 2.0**-6
LEVELS = 16


def generate_input(tokens: int, outs: int, ins: int, group: int, seed: int) -> input_t:
    """Normal activations, random weights with scales and zeros of their groups, and a buffer."""
    device = get_device()
    generator = torch.Generator(device).manual_seed(seed)
    x = torch.empty(tokens, ins, device=device).normal_(0, 1, generator=generator)
    packed = torch.empty(outs, ins // 2, dtype=torch.uint8, device=device)
    packed.random_(0, LEVELS * LEVELS, generator=generator)
    groups = (outs, ins // group)
    scales = torch.empty(groups, device=device).uniform_(0.01, 0.1, generator=generator)
    zeros = torch.empty(groups, dtype=torch.uint8, device=device)
    zeros.random_(0, LEVELS, generator=generator)
    return x.to(torch.bfloat16), packed, scales, zeros, torch.zeros(tokens, outs, device=device)


def ref_kernel(data: input_t) -> output_t:
    """The product in float64, rounded once."""
    x, packed, scales, zeros, output = data
    return output.copy_(x.double() @ weights(packed, scales, zeros).T)


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    """Compares with float64: |got - y| <= RTOL * the root of the sum of the terms' squares."""
    x, packed, scales, zeros, buffer = data
    if output.dtype != buffer.dtype or output.shape != buffer.shape:
        return False, f"got {output.dtype} {list(output.shape)}, expected {list(buffer.shape)}"
    matrix = weights(packed, scales, zeros)
    wide = x.double()
    want = wide @ matrix.T
    bound = RTOL * (wide.square() @ matrix.square().T).sqrt()
    # A NaN is not <= anything, so it counts as wrong.
    wrong = ~((output - want).abs() <= bound)
    count = int(wrong.sum())
    if count == 0:
        return True, ""
    row, column = divmod(int(wrong.flatten().to(torch.uint8).argmax()), want.shape[1])
    pair = f"got {output[row, column].item()}, expected {want[row, column].item()}"
    return False, f"{count} of {want.numel()} values differ, the first at [{row}, {column}]: {pair}"


def weights(packed: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor) -> torch.Tensor:
    """The weights [outs, ins] in float64; of each byte the low half comes first."""
    outs, groups = scales.shape
    levels = torch.stack([packed & 15, packed >> 4], dim=2).view(outs, groups, -1)
    centred = levels.double() - zeros.double()[:, :, None]
    return (centred * scales.double()[:, :, None]).view(outs, -1)
