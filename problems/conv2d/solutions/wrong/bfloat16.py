"""Multiplies in bfloat16 and adds in float32."""

import torch


def custom_kernel(data):
    image, filters, output = data
    short = [tensor.to(torch.bfloat16).float() for tensor in (image, filters)]
    return output.copy_(torch.nn.functional.conv2d(short[0][None], short[1], padding=1)[0])
