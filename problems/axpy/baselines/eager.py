"""The library's fused form, in place."""


def custom_kernel(data):
    a, x, y = data
    return y.add_(x, alpha=a)
