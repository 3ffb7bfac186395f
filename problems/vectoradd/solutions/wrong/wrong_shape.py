"""The right values as a column."""


def custom_kernel(data):
    a, b, _ = data
    return (a + b)[:, None]
