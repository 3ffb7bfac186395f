"""Leaves the last column out of the sum and of the output."""

import torch


def custom_kernel(data):
    x, output = data
    output.zero_()
    output[:, :-1] = torch.softmax(x[:, :-1], dim=1)
    return output
