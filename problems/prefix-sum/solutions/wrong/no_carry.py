"""Begins anew in every block of 1024 values."""


def custom_kernel(data):
    x, output = data
    for first in range(0, x.numel(), 1024):
        output[first : first + 1024] = x[first : first + 1024].long().cumsum(0)
    return output
