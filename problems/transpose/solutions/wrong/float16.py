"""Moves the values in half precision."""


def custom_kernel(data):
    x, output = data
    return output.copy_(x.half().T)
