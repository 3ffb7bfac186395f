"""Takes gate and up to alternate."""

import torch


def custom_kernel(data):
    x, output = data
    gate, up = x[:, 0::2].float(), x[:, 1::2].float()
    return output.copy_(torch.nn.functional.silu(gate) * up)
