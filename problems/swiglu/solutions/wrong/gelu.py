"""Another activation."""

import torch


def custom_kernel(data):
    x, output = data
    gate, up = x.float().chunk(2, dim=1)
    return output.copy_(torch.nn.functional.gelu(gate) * up)
