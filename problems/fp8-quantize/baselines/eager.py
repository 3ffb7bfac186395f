"""The library's parts of a float and its own rounding to e4m3."""

import torch


def custom_kernel(data):
    x, codes, exponents = data
    rows, cols = x.shape
    blocks = exponents.shape[1]
    padded = torch.nn.functional.pad(x, (0, blocks * 128 - cols)).view(rows, blocks, 128)
    largest = padded.abs().amax(2)
    mantissa, exponent = torch.frexp(largest)
    exponent = torch.where(largest > 0, exponent - 9 + (mantissa > 0.875), 0).int()
    scaled = (padded * powers(-exponent)[:, :, None]).view(rows, -1)[:, :cols]
    exponents.copy_(exponent)
    return codes.copy_(scaled.to(torch.float8_e4m3fn).view(torch.uint8)), exponents


def powers(exponents):
    return ((127 + exponents) << 23).view(torch.float32)
