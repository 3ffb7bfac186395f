"""The mean of the squares less the square of the mean, in float32: all digits cancel."""

import torch


def custom_kernel(data):
    x, weight, bias, output = data
    mean = x.mean(dim=1, keepdim=True)
    variance = (x.square().mean(dim=1, keepdim=True) - mean.square()).clamp(min=0)
    return output.copy_((x - mean) * torch.rsqrt(variance + 1e-5) * weight + bias)
