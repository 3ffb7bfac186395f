#!POPCORN leaderboard int4-matmul
"""Rounds the weights to bfloat16, as tensor cores want them, and adds in float32."""

import torch


def custom_kernel(data):
    x, packed, scales, zeros, output = data
    outs, groups = scales.shape
    levels = torch.stack([packed & 15, packed >> 4], dim=2).view(outs, groups, -1).float()
    weights = ((levels - zeros[:, :, None]) * scales[:, :, None]).to(torch.bfloat16)
    return torch.matmul(x.float(), weights.view(outs, -1).float().T, out=output)
