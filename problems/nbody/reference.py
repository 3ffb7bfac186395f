"""The accelerations of bodies under a softened law of gravity, taken in float64."""

from collections.abc import Iterator

import torch
from task import input_t, output_t
from utils import get_device

EPS_SQUARED = 2.0**-10
# Eighty roundings' worth of all the terms of a sum; statement.md says why.
RTOL = 5e-6
ATOL = 1e-9
# Rows are taken in blocks that stay in a cache.
BLOCK_PAIRS = 1 << 16


def generate_input(size: int, seed: int) -> input_t:
    """Bodies in a cube, with masses that sum up to about 1, and a buffer."""
    device = get_device()
    generator = torch.Generator(device).manual_seed(seed)
    bodies = torch.empty(size, 4, device=device).uniform_(-1, 1, generator=generator)
    bodies[:, 3].add_(1.5).div_(1.5 * size)
    return bodies, torch.zeros(size, 3, device=device)


def ref_kernel(data: input_t) -> output_t:
    """The sums in float64, rounded once."""
    bodies, output = data
    for rows, expected, _ in expected_blocks(bodies):
        output[rows] = expected
    return output


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    """Compares with float64: |got - want| <= ATOL + RTOL * the sum of the terms' magnitudes."""
    bodies, buffer = data
    if output.dtype != buffer.dtype or output.shape != buffer.shape:
        return False, f"got {output.dtype} {list(output.shape)}, expected {list(buffer.shape)}"
    for rows, expected, magnitude in expected_blocks(bodies):
        # A NaN is not <= anything, so it counts as wrong.
        wrong = ~((output[rows] - expected).abs() <= ATOL + RTOL * magnitude)
        if count := int(wrong.sum()):
            row, axis = wrong.nonzero()[0].tolist()
            pair = f"got {output[rows][row, axis].item()}, expected {expected[row, axis].item()}"
            where = f"the first at [{rows.start + row}, {axis}]: {pair}"
            return False, f"{count} of {wrong.numel()} values of a block differ, {where}"
    return True, ""


def expected_blocks(
    bodies: torch.Tensor,
) -> Iterator[tuple[slice, torch.Tensor, torch.Tensor]]:
    """The expected output and its terms' magnitudes in float64, a block of rows at a time."""
    places, masses = bodies[:, :3].double(), bodies[:, 3].double()
    height = max(1, BLOCK_PAIRS // len(bodies))
    for start in range(0, len(bodies), height):
        rows = slice(start, min(start + height, len(bodies)))
        apart = places[None] - places[rows, None]
        squares = apart.square().sum(2) + EPS_SQUARED
        terms = apart * (masses / (squares * squares.sqrt()))[:, :, None]
        yield rows, terms.sum(1), terms.abs().sum(1)
