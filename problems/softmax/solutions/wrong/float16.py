"""In half precision."""

import torch


def custom_kernel(data):
    x, output = data
    return output.copy_(torch.softmax(x.half(), dim=1))
