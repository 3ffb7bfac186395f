"""By two stable sorts."""

import torch


def custom_kernel(data):
    logits, experts, weights, counts, order = data
    values, found = torch.sort(logits, dim=1, descending=True, stable=True)
    chosen = experts.shape[1]
    experts.copy_(found[:, :chosen])
    torch.softmax(values[:, :chosen], dim=1, out=weights)
    flat = experts.flatten()
    counts.copy_(torch.bincount(flat, minlength=logits.shape[1]))
    return experts, weights, counts, order.copy_(torch.sort(flat, stable=True).indices)
