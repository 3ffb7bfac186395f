"""Adds in float32, which holds 24 bits."""


def custom_kernel(data):
    x, output = data
    return output.copy_(x.float().cumsum(0))
