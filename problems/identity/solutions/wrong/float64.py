"""The right values in the wrong dtype."""


def custom_kernel(data):
    return data[0].double()
