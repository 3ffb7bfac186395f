"""The right logits in the order of their places."""

import torch


def custom_kernel(data):
    logits, values, places = data
    where = torch.sort(logits, dim=1, descending=True, stable=True).indices
    where = where[:, : values.shape[1]].sort(dim=1).values
    return values.copy_(logits.gather(1, where)), places.copy_(where)
