"""Multiplies in 32 bits, which come round."""

import torch


def custom_kernel(data):
    points, steps, output = data
    a, b = points.unbind(1)
    u, v = torch.zeros_like(a), torch.zeros_like(b)
    output.zero_()
    stays = torch.ones_like(a, dtype=torch.bool)
    for _ in range(steps):
        stays &= u.float() ** 2 + v.float() ** 2 <= 4.0 * 2**48
        output += stays
        real, imaginary = ((u * u - v * v) >> 24) + a, ((u * v) >> 23) + b
        u, v = torch.where(stays, real, 0), torch.where(stays, imaginary, 0)
    return output
