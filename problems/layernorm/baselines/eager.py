"""The library's layer normalisation."""

import torch


def custom_kernel(data):
    x, weight, bias, output = data
    return output.copy_(torch.nn.functional.layer_norm(x, weight.shape, weight, bias, 1e-5))
