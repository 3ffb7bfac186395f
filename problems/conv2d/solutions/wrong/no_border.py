"""Leaves the border of the output 0."""

import torch


def custom_kernel(data):
    image, filters, output = data
    output.zero_()
    if min(image.shape[1:]) > 2:
        output[:, 1:-1, 1:-1] = torch.nn.functional.conv2d(image[None], filters)[0]
    return output
