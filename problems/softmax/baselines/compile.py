"""The formula as torch.compile fuses it."""

import torch


@torch.compile(dynamic=True)
def shares(x):
    powers = (x - x.amax(dim=1, keepdim=True)).exp()
    return powers / powers.sum(dim=1, keepdim=True)


def custom_kernel(data):
    x, output = data
    return output.copy_(shares(x))
