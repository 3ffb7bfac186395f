"""The sum of all values before: one place too late."""


def custom_kernel(data):
    x, output = data
    return output.copy_(x.long().cumsum(0) - x)
