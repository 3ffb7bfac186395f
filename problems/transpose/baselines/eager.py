"""The library's copy of the transposed view."""


def custom_kernel(data):
    x, output = data
    return output.copy_(x.T)
