"""Subtracts the zero in unsigned bytes, which come round."""

import torch


def custom_kernel(data):
    x, packed, scales, zeros, output = data
    outs, groups = scales.shape
    levels = torch.stack([packed & 15, packed >> 4], dim=2).view(outs, groups, -1)
    weights = (levels - zeros[:, :, None]).float() * scales[:, :, None]
    return torch.matmul(x.float(), weights.view(outs, -1).T, out=output)
