"""Rounds the activations to eight bits, with one scale for a token."""

import torch


def custom_kernel(data):
    x, packed, scales, zeros, output = data
    outs, groups = scales.shape
    levels = torch.stack([packed & 15, packed >> 4], dim=2).view(outs, groups, -1).float()
    weights = (levels - zeros[:, :, None]) * scales[:, :, None]
    step = x.float().abs().amax(1, keepdim=True) / 127
    short = (x.float() / step).round() * step
    return torch.matmul(short, weights.view(outs, -1).T, out=output)
