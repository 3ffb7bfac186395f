"""Orders by magnitude, as bits without their sign do."""

import torch


def custom_kernel(data):
    logits, values, places = data
    where = torch.sort(logits.abs(), dim=1, descending=True, stable=True).indices
    where = where[:, : values.shape[1]]
    return values.copy_(logits.gather(1, where)), places.copy_(where)
