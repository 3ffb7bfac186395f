"""Numbers the places through the whole matrix instead of anew in every row."""

import torch


def custom_kernel(data):
    x, low, high, low_at, high_at = data
    first = torch.arange(x.shape[0], device=x.device) * x.shape[1]
    low.copy_(x.amin(1))
    high.copy_(x.amax(1))
    low_at.copy_(first + x.argmin(1))
    high_at.copy_(first + x.argmax(1))
    return low, high, low_at, high_at
