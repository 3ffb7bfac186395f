"""Along the wrong dimension."""

import torch


def custom_kernel(data):
    x, output = data
    return torch.softmax(x, dim=0, out=output)
