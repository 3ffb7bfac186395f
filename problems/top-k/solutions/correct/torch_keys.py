#!POPCORN leaderboard top-k
"""A logit and its place in one whole number, of which the library finds the largest."""

import torch


def custom_kernel(data):
    logits, values, places = data
    bits = torch.where(logits == 0, 0, logits.view(torch.int16)).int()
    ordered = torch.where(bits < 0, bits ^ 0x7FFF, bits).long()
    last = (1 << 32) - 1
    keys = (ordered << 32) | (last - torch.arange(logits.shape[1], device=logits.device))
    found = last - (torch.topk(keys, values.shape[1], dim=1).values & last)
    return values.copy_(logits.gather(1, found)), places.copy_(found)
