"""The eager baseline's formula, as torch.compile has it."""

import torch


@torch.compile(dynamic=True)
def normalised(residual, weight):
    wide = residual.float()
    scale = torch.rsqrt(wide.square().mean(1, keepdim=True) + 1e-6)
    return (wide * scale * weight).to(residual.dtype)


def custom_kernel(data):
    x, residual, weight, output = data
    residual.add_(x)
    return residual, output.copy_(normalised(residual, weight))
