"""Leaves room for twice the largest value in every block."""

import torch


def custom_kernel(data):
    x, codes, exponents = data
    rows, cols = x.shape
    blocks = exponents.shape[1]
    padded = torch.nn.functional.pad(x, (0, blocks * 128 - cols)).view(rows, blocks, 128)
    largest = padded.abs().amax(2)
    exponent = torch.where(largest > 0, torch.frexp(largest)[1] - 8, 0).int()
    scaled = (padded * powers(-exponent)[:, :, None]).view(rows, -1)[:, :cols]
    exponents.copy_(exponent)
    return codes.copy_(scaled.to(torch.float8_e4m3fn).view(torch.uint8)), exponents


def powers(exponents):
    return ((127 + exponents) << 23).view(torch.float32)
