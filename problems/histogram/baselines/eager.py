"""The library's count."""

import torch


def custom_kernel(data):
    values, output = data
    return output.copy_(torch.bincount(values, minlength=256))
