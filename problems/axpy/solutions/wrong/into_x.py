"""Changes x and returns y as it came."""


def custom_kernel(data):
    a, x, y = data
    x.mul_(a).add_(y)
    return y
