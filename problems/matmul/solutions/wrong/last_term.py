"""Leaves out the last term of every sum."""

import torch


def custom_kernel(data):
    a, b, output = data
    return torch.matmul(a[:, :-1].contiguous(), b[:-1], out=output)
