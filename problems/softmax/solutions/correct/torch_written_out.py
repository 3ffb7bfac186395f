#!POPCORN leaderboard softmax
"""The formula in four passes over the matrix."""

import torch


def custom_kernel(data):
    x, output = data
    torch.sub(x, x.amax(dim=1, keepdim=True), out=output)
    output.exp_()
    return output.div_(output.sum(dim=1, keepdim=True))
