"""Takes the high half of each byte first."""

import torch


def custom_kernel(data):
    x, packed, scales, zeros, output = data
    outs, groups = scales.shape
    levels = torch.stack([packed >> 4, packed & 15], dim=2).view(outs, groups, -1).float()
    weights = (levels - zeros[:, :, None]) * scales[:, :, None]
    return torch.matmul(x.float(), weights.view(outs, -1).T, out=output)
