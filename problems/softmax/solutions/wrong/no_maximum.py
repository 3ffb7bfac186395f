"""Overflows where the numbers are large."""

import torch


def custom_kernel(data):
    x, output = data
    torch.exp(x, out=output)
    return output.div_(output.sum(dim=1, keepdim=True))
