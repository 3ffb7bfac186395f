"""The library's product, straight into the buffer."""

import torch


def custom_kernel(data):
    a, b, output = data
    return torch.matmul(a, b, out=output)
