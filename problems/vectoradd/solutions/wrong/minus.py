"""The wrong formula."""

import torch


def custom_kernel(data):
    a, b, output = data
    return torch.sub(a, b, out=output)
