"""Divides the squares by one less than there are."""

import torch


def custom_kernel(data):
    x, weight, bias, output = data
    variance, mean = torch.var_mean(x, dim=1, keepdim=True)
    return output.copy_((x - mean) * torch.rsqrt(variance + 1e-5) * weight + bias)
