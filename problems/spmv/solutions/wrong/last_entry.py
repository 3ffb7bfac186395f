"""Leaves out the last entry of every row."""

import torch


def custom_kernel(data):
    starts, columns, values, x, output = data
    count = (starts[1:] - starts[:-1]).long()
    rows = torch.repeat_interleave(count)
    terms = values * x[columns]
    terms[(starts[1:] - 1).long()[count > 0]] = 0
    return output.zero_().index_add_(0, rows, terms)
