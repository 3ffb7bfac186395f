"""Cuts the operands to the ten bits of TF32, then multiplies exactly."""

import torch


def custom_kernel(data):
    image, filters, output = data
    x, w = rounded(image)[None].double(), rounded(filters).double()
    return output.copy_(torch.nn.functional.conv2d(x, w, padding=1)[0])


def rounded(tensor):
    return ((tensor.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)
