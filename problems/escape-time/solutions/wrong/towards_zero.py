"""Rounds towards 0, as a division in C does."""

import torch


def custom_kernel(data):
    points, steps, output = data
    a, b = points.long().unbind(1)
    u, v = torch.zeros_like(a), torch.zeros_like(b)
    output.zero_()
    stays = torch.ones_like(a, dtype=torch.bool)
    for _ in range(steps):
        stays &= u * u + v * v <= 4 << 48
        output += stays
        real = torch.div(u * u - v * v, 1 << 24, rounding_mode="trunc") + a
        imaginary = torch.div(u * v, 1 << 23, rounding_mode="trunc") + b
        u, v = torch.where(stays, real, 0), torch.where(stays, imaginary, 0)
    return output
