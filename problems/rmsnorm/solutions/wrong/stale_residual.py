"""Leaves the residual stream as it was."""

import torch


def custom_kernel(data):
    x, residual, weight, output = data
    wide = (residual + x).float()
    scale = torch.rsqrt(wide.square().mean(1, keepdim=True) + 1e-6)
    return residual, output.copy_(wide * scale * weight)
