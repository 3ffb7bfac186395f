"""The eager baseline's formula, as torch.compile has it."""

import torch


@torch.compile(dynamic=True)
def gated(x):
    gate, up = x.float().chunk(2, dim=1)
    return (torch.nn.functional.silu(gate) * up).to(x.dtype)


def custom_kernel(data):
    x, output = data
    return output.copy_(gated(x))
