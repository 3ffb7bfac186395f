"""Stops one value early."""


def custom_kernel(data):
    source, output = data
    output[:-1] = source[:-1]
    output[-1:] = 0
    return output
