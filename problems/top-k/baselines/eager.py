"""By a stable sort of each row."""

import torch


def custom_kernel(data):
    logits, values, places = data
    found, where = torch.sort(logits, dim=1, descending=True, stable=True)
    k = values.shape[1]
    return values.copy_(found[:, :k]), places.copy_(where[:, :k])
