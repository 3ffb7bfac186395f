"""Rounds the activation to bfloat16 before the product."""

import torch


def custom_kernel(data):
    x, output = data
    gate, up = x.chunk(2, dim=1)
    return torch.mul(torch.nn.functional.silu(gate), up, out=output)
