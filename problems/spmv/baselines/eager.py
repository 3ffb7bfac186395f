"""The library's own sparse product."""

import warnings

import torch


def custom_kernel(data):
    starts, columns, values, x, output = data
    shape = (output.numel(), x.numel())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        matrix = torch.sparse_csr_tensor(starts, columns, values, shape)
    return output.copy_(matrix @ x)
