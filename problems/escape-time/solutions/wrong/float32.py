"""Computes in float32, which rounds otherwise."""

import torch


def custom_kernel(data):
    points, steps, output = data
    a, b = (points.float() / 2**24).unbind(1)
    u, v = torch.zeros_like(a), torch.zeros_like(b)
    output.zero_()
    stays = torch.ones_like(a, dtype=torch.bool)
    for _ in range(steps):
        stays &= u * u + v * v <= 4
        output += stays
        u, v = torch.where(stays, u * u - v * v + a, 0), torch.where(stays, 2 * u * v + b, 0)
    return output
