"""Takes one exponent for the whole row."""

import torch


def custom_kernel(data):
    x, codes, exponents = data
    largest = x.abs().amax(1, keepdim=True)
    mantissa, exponent = torch.frexp(largest)
    exponent = torch.where(largest > 0, exponent - 9 + (mantissa > 0.875), 0).int()
    exponents.copy_(exponent.expand_as(exponents))
    scaled = x * powers(-exponent)
    return codes.copy_(scaled.to(torch.float8_e4m3fn).view(torch.uint8)), exponents


def powers(exponents):
    return ((127 + exponents) << 23).view(torch.float32)
