"""The right values in the wrong order, and mostly in the wrong shape."""


def custom_kernel(data):
    a, b, _ = data
    return (a @ b).T
