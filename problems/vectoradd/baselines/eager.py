"""The library's sum, straight into the buffer."""

import torch


def custom_kernel(data):
    a, b, output = data
    return torch.add(a, b, out=output)
