"""Drops sixteen bits of every value."""

import torch


def custom_kernel(data):
    source, output = data
    return output.copy_(source.to(torch.bfloat16))
