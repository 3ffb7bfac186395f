"""In bfloat16."""

import torch


def custom_kernel(data):
    x, weight, bias, output = data
    short = [tensor.to(torch.bfloat16) for tensor in (x, weight, bias)]
    return output.copy_(torch.nn.functional.layer_norm(short[0], weight.shape, *short[1:], 1e-5))
