"""Turns the filters round: a convolution as mathematicians have it."""

import torch


def custom_kernel(data):
    image, filters, output = data
    turned = filters.flip(2, 3)
    return output.copy_(torch.nn.functional.conv2d(image[None], turned, padding=1)[0])
