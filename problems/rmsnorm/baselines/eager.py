"""In float32, rounded at the end."""

import torch


def custom_kernel(data):
    x, residual, weight, output = data
    residual.add_(x)
    wide = residual.float()
    scale = torch.rsqrt(wide.square().mean(1, keepdim=True) + 1e-6)
    return residual, output.copy_(wide.mul_(scale).mul_(weight))
