"""Adds the probabilities up in bfloat16."""

import torch


def custom_kernel(data):
    logits, temperatures, shares, draws, k, output = data
    values, places = torch.sort(logits, dim=1, descending=True, stable=True)
    scaled = values[:, :k].float() / temperatures[:, None]
    sums = torch.softmax(scaled, dim=1).to(torch.bfloat16).cumsum(1).float()
    kept = (sums < shares[:, None]).sum(1, keepdim=True).clamp(max=k - 1)
    target = draws[:, None] * sums.gather(1, kept)
    rank = torch.minimum((sums <= target).sum(1, keepdim=True), kept)
    return output.copy_(places.gather(1, rank)[:, 0])
