"""One value is NaN."""


def custom_kernel(data):
    a, b, output = data
    output.copy_(a @ b)
    output[-1, -1] = float("nan")
    return output
