#!POPCORN leaderboard sampling
"""A logit and its token in one whole number, of which the library finds the k largest."""

import torch


def custom_kernel(data):
    logits, temperatures, shares, draws, k, output = data
    bits = torch.where(logits == 0, 0, logits.view(torch.int16)).int()
    ordered = torch.where(bits < 0, bits ^ 0x7FFF, bits).long()
    last = (1 << 32) - 1
    keys = (ordered << 32) | (last - torch.arange(logits.shape[1], device=logits.device))
    places = last - (torch.topk(keys, k, dim=1).values & last)
    scaled = logits.gather(1, places).float() / temperatures[:, None]
    sums = torch.softmax(scaled, dim=1).cumsum(1)
    kept = (sums < shares[:, None]).sum(1, keepdim=True).clamp(max=k - 1)
    target = draws[:, None] * sums.gather(1, kept)
    rank = torch.minimum((sums <= target).sum(1, keepdim=True), kept)
    return output.copy_(places.gather(1, rank)[:, 0])
