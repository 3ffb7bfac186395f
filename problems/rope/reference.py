"""Queries and keys turned by their positions, rounded once to bfloat16."""

from functools import lru_cache

import torch
from task import input_t, output_t
from utils import get_device

BASE = 10_000.0
# A value rounded once to bfloat16 is off by at most 2^-8 of itself; a tenth more and ATOL are left
# to float32 on the way, where two products may cancel.
RTOL = 1.1 * 2.0**-8
ATOL = 4e-6


def generate_input(
    tokens: int, heads: int, kv_heads: int, dim: int, context: int, seed: int
) -> input_t:
    """Normal queries and keys, the tables of angles, and random positions in the context."""
    device = get_device()
    generator = torch.Generator(device).manual_seed(seed)
    q = torch.empty(tokens, heads, dim, device=device).normal_(0, 1, generator=generator)
    k = torch.empty(tokens, kv_heads, dim, device=device).normal_(0, 1, generator=generator)
    positions = torch.randint(context, (tokens,), generator=generator, device=device)
    cosines, sines = (table.to(device) for table in tables(context, dim // 2))
    return q.to(torch.bfloat16), k.to(torch.bfloat16), cosines, sines, positions


@lru_cache(maxsize=8)
def tables(context: int, pairs: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines of every position and pair; the same for every seed."""
    speeds = BASE ** -(torch.arange(pairs, dtype=torch.float64) / pairs)
    angles = torch.arange(context, dtype=torch.float64)[:, None] * speeds
    return angles.cos().float(), angles.sin().float()


def ref_kernel(data: input_t) -> output_t:
    """Both in float64, rounded once."""
    q, k, cosines, sines, positions = data
    for tensor in (q, k):
        tensor.copy_(turned(tensor, cosines[positions], sines[positions]))
    return q, k


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    """Compares with float64: |got - want| <= ATOL + RTOL * |want|."""
    q, k, cosines, sines, positions = data
    for name, got, given in zip(("q", "k"), output, (q, k), strict=True):
        if got.dtype != given.dtype or got.shape != given.shape:
            return False, f"{name}: got {got.dtype} {list(got.shape)}, expected that of the input"
        want = turned(given, cosines[positions], sines[positions])
        # A NaN is not <= anything, so it counts as wrong.
        wrong = ~((got.double() - want).abs() <= ATOL + RTOL * want.abs())
        if count := int(wrong.sum()):
            place = tuple(wrong.nonzero()[0].tolist())
            pair = f"got {got[place].item()}, expected {want[place].item()}"
            where = f"the first at {list(place)}: {pair}"
            return False, f"{name}: {count} of {wrong.numel()} values differ, {where}"
    return True, ""


def turned(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    """Every pair of first and second half turned by its angle, in float64."""
    first, second = x.double().chunk(2, dim=2)
    c, s = cosine.double()[:, None], sine.double()[:, None]
    return torch.cat([first * c - second * s, second * c + first * s], dim=2)
