"""Adds in 32 bits, which come round."""

import torch


def custom_kernel(data):
    x, output = data
    return output.copy_(torch.cumsum(x, 0, dtype=torch.int32))
