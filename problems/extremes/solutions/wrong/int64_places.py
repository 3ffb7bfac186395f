"""The right places in the wrong dtype."""


def custom_kernel(data):
    x = data[0]
    return x.amin(1), x.amax(1), x.argmin(1), x.argmax(1)
