"""Takes the weights in bfloat16."""

import torch


def custom_kernel(data):
    logits, experts, weights, counts, order = data
    values, found = torch.sort(logits, dim=1, descending=True, stable=True)
    chosen = experts.shape[1]
    experts.copy_(found[:, :chosen])
    weights.copy_(torch.softmax(values[:, :chosen].to(torch.bfloat16), dim=1))
    flat = experts.flatten()
    counts.copy_(torch.bincount(flat, minlength=logits.shape[1]))
    return experts, weights, counts, order.copy_(torch.sort(flat, stable=True).indices)
