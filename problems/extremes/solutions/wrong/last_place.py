"""Of equal values takes the last one."""


def custom_kernel(data):
    x, low, high, low_at, high_at = data
    low.copy_(x.amin(1))
    high.copy_(x.amax(1))
    end = x.shape[1] - 1
    low_at.copy_(end - x.flip(1).argmin(1))
    high_at.copy_(end - x.flip(1).argmax(1))
    return low, high, low_at, high_at
