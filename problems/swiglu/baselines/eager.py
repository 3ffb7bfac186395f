"""In float32, rounded at the end."""

import torch


def custom_kernel(data):
    x, output = data
    gate, up = x.float().chunk(2, dim=1)
    return output.copy_(torch.nn.functional.silu(gate).mul_(up))
