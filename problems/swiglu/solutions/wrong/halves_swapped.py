"""Takes the second half as the gate."""

import torch


def custom_kernel(data):
    x, output = data
    up, gate = x.float().chunk(2, dim=1)
    return output.copy_(torch.nn.functional.silu(gate) * up)
