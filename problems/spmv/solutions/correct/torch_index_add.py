#!POPCORN leaderboard spmv
"""All products at once, then added up by row."""

import torch


def custom_kernel(data):
    starts, columns, values, x, output = data
    rows = torch.repeat_interleave((starts[1:] - starts[:-1]).long())
    return output.zero_().index_add_(0, rows, values * x[columns])
