"""Cuts the operands to the ten bits of TF32, then multiplies exactly."""

import torch


def custom_kernel(data):
    a, b, output = data
    return output.copy_(rounded(a).double() @ rounded(b).double())


def rounded(matrix):
    return ((matrix.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)
