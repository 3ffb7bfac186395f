"""Repeats the border outside of the image instead of taking it as 0."""

import torch


def custom_kernel(data):
    image, filters, output = data
    padded = torch.nn.functional.pad(image[None], (1, 1, 1, 1), mode="replicate")
    return output.copy_(torch.nn.functional.conv2d(padded, filters)[0])
