"""The right counts in the wrong dtype."""

import torch


def custom_kernel(data):
    return torch.bincount(data[0], minlength=256)
