"""The library's running sum, straight into the buffer."""

import torch


def custom_kernel(data):
    x, output = data
    return torch.cumsum(x, 0, dtype=torch.int64, out=output)
