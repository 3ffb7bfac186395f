"""Adds in half precision."""


def custom_kernel(data):
    a, b, output = data
    return output.copy_(a.half() + b.half())
