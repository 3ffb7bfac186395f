"""Takes the softmax over all experts."""

import torch


def custom_kernel(data):
    logits, experts, weights, counts, order = data
    found = torch.sort(logits, dim=1, descending=True, stable=True).indices[:, : experts.shape[1]]
    experts.copy_(found)
    weights.copy_(torch.softmax(logits, dim=1).gather(1, found))
    flat = experts.flatten()
    counts.copy_(torch.bincount(flat, minlength=logits.shape[1]))
    return experts, weights, counts, order.copy_(torch.sort(flat, stable=True).indices)
