"""The next token of every sequence, drawn by a given random number."""

import torch
from task import input_t, output_t
from utils import get_device

# Sums of probabilities that are as near as this may be taken for equal; statement.md says why.
ATOL = 1e-5


def generate_input(batch: int, vocab: int, k: int, seed: int) -> input_t:
    """Normal logits, temperatures, the shares to keep, random numbers, k, and a buffer."""
    device = get_device()
    generator = torch.Generator(device).manual_seed(seed)
    logits = torch.empty(batch, vocab, device=device).normal_(0, 2, generator=generator)
    temperatures = torch.empty(batch, device=device).uniform_(0.5, 1.5, generator=generator)
    shares = torch.empty(batch, device=device).uniform_(0.5, 1, generator=generator)
    draws = torch.empty(batch, device=device).uniform_(0, 1, generator=generator)
    output = torch.zeros(batch, dtype=torch.int32, device=device)
    return logits.to(torch.bfloat16), temperatures, shares, draws, k, output


def ref_kernel(data: input_t) -> output_t:
    """In float64, by a stable sort."""
    *_, shares, draws, _, output = data
    places, sums = ranked(data)
    kept = first_at_least(sums, shares.double())
    target = draws.double()[:, None] * sums.gather(1, kept)
    rank = (sums <= target).sum(1, keepdim=True).clamp(max=kept)
    return output.copy_(places.gather(1, rank)[:, 0])


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    """Accepts the token whose interval the draw hits, and a neighbour's within ATOL."""
    _, _, shares, draws, _, buffer = data
    if output.dtype != buffer.dtype or output.shape != buffer.shape:
        return False, f"got {output.dtype} {list(output.shape)}, expected {list(buffer.shape)}"
    places, sums = ranked(data)
    is_token = places == output.long()[:, None]
    rank = is_token.to(torch.uint8).argmax(1, keepdim=True)
    fewest = first_at_least(sums, shares.double() - ATOL)
    most = first_at_least(sums, shares.double() + ATOL)
    begin = torch.where(rank > 0, sums.gather(1, (rank - 1).clamp(min=0)), 0)
    draw = draws.double()[:, None]
    is_right = is_token.any(1, keepdim=True) & (rank <= most)
    is_right &= sums.gather(1, rank) >= draw * sums.gather(1, fewest) - ATOL
    is_right &= begin <= draw * sums.gather(1, most) + ATOL
    wrong = ~is_right[:, 0]
    count = int(wrong.sum())
    if count == 0:
        return True, ""
    first = int(wrong.to(torch.uint8).argmax())
    want = ref_kernel((*data[:-1], torch.empty_like(buffer)))
    pair = f"got {output[first].item()}, expected {want[first].item()}"
    return False, f"{count} of {len(wrong)} tokens differ, the first in sequence {first}: {pair}"


def ranked(data: input_t) -> tuple[torch.Tensor, torch.Tensor]:
    """The k likeliest tokens of each sequence in order, and the running sums of their shares."""
    logits, temperatures, _, _, k, _ = data
    values, places = torch.sort(logits, dim=1, descending=True, stable=True)
    scaled = values[:, :k].double() / temperatures.double()[:, None]
    return places[:, :k], torch.softmax(scaled, dim=1).cumsum(1)


def first_at_least(sums: torch.Tensor, bound: torch.Tensor) -> torch.Tensor:
    """The first rank [batch, 1] whose running sum is at least the bound, else the last."""
    return (sums < bound[:, None]).sum(1, keepdim=True).clamp(max=sums.shape[1] - 1)
