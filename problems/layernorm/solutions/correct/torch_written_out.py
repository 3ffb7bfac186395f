#!POPCORN leaderboard layernorm
"""The formula: the mean first, the squares of the differences afterwards."""

import torch


def custom_kernel(data):
    x, weight, bias, output = data
    torch.sub(x, x.mean(dim=1, keepdim=True), out=output)
    scale = torch.rsqrt(output.square().mean(dim=1, keepdim=True) + 1e-5)
    return output.mul_(scale).mul_(weight).add_(bias)
