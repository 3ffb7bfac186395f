"""Rounds every square to bfloat16."""

import torch


def custom_kernel(data):
    x, residual, weight, output = data
    residual.add_(x)
    squares = (residual * residual).float()
    scale = torch.rsqrt(squares.sum(1, keepdim=True).to(torch.bfloat16) / x.shape[1] + 1e-6)
    return residual, output.copy_(residual.float() * scale.float() * weight)
