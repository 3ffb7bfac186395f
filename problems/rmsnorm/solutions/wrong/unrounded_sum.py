"""Normalises the sum as it was before it was rounded."""

import torch


def custom_kernel(data):
    x, residual, weight, output = data
    wide = residual.float() + x.float()
    residual.copy_(wide)
    scale = torch.rsqrt(wide.square().mean(1, keepdim=True) + 1e-6)
    return residual, output.copy_(wide * scale * weight)
