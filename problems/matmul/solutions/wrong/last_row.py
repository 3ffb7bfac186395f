"""Never writes the last row."""

import torch


def custom_kernel(data):
    a, b, output = data
    output[:-1] = torch.matmul(a[:-1], b)
    return output
