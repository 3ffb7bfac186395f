"""One value is NaN."""

import torch


def custom_kernel(data):
    x, output = data
    torch.softmax(x, dim=1, out=output)
    output[-1, -1] = float("nan")
    return output
