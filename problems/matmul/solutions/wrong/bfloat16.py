"""Multiplies in bfloat16."""

import torch


def custom_kernel(data):
    a, b, output = data
    return output.copy_(a.to(torch.bfloat16) @ b.to(torch.bfloat16))
