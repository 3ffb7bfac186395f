"""Of equals puts the last first."""

import torch


def custom_kernel(data):
    logits, values, places = data
    found, where = torch.sort(logits.flip(1), dim=1, descending=True, stable=True)
    k = values.shape[1]
    return values.copy_(found[:, :k]), places.copy_(logits.shape[1] - 1 - where[:, :k])
