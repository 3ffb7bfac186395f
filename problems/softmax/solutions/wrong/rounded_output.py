"""The right values, on their way through bfloat16."""

import torch


def custom_kernel(data):
    x, output = data
    return output.copy_(torch.softmax(x, dim=1).to(torch.bfloat16))
