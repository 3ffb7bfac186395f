"""The library's softmax, straight into the buffer."""

import torch


def custom_kernel(data):
    x, output = data
    return torch.softmax(x, dim=1, out=output)
