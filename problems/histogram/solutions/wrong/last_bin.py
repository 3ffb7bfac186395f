"""Takes 255 bins to be all."""

import torch


def custom_kernel(data):
    values, output = data
    output.zero_()
    output[:255] = torch.bincount(values, minlength=256)[:255]
    return output
