"""Rounds the norm to bfloat16 before the weight is multiplied in."""

import torch


def custom_kernel(data):
    x, residual, weight, output = data
    residual.add_(x)
    wide = residual.float()
    scale = torch.rsqrt(wide.square().mean(1, keepdim=True) + 1e-6)
    return residual, output.copy_((wide * scale).to(torch.bfloat16) * weight)
