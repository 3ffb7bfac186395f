"""A pass over the matrix for each answer; torch promises the first place of equal values."""

import torch


def custom_kernel(data):
    x, low, high, low_at, high_at = data
    torch.amin(x, dim=1, out=low)
    torch.amax(x, dim=1, out=high)
    low_at.copy_(x.argmin(1))
    high_at.copy_(x.argmax(1))
    return low, high, low_at, high_at
