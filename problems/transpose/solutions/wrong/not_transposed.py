"""The values as they came, in a tensor of the input's shape."""


def custom_kernel(data):
    return data[0].clone()
