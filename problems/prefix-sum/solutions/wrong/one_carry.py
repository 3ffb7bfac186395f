"""Carries the sum of the block before, and not what that block was given."""


def custom_kernel(data):
    x, output = data
    before = 0
    for first in range(0, x.numel(), 1024):
        block = x[first : first + 1024].long().cumsum(0)
        output[first : first + 1024] = block + before
        before = block[-1]
    return output
