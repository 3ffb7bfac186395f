"""As it is written, in float32, by a stable sort."""

import torch


def custom_kernel(data):
    logits, temperatures, shares, draws, k, output = data
    values, places = torch.sort(logits, dim=1, descending=True, stable=True)
    sums = torch.softmax(values[:, :k].float() / temperatures[:, None], dim=1).cumsum(1)
    kept = (sums < shares[:, None]).sum(1, keepdim=True).clamp(max=k - 1)
    target = draws[:, None] * sums.gather(1, kept)
    rank = torch.minimum((sums <= target).sum(1, keepdim=True), kept)
    return output.copy_(places.gather(1, rank)[:, 0])
