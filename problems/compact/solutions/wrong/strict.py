"""Drops what is equal to the threshold."""


def custom_kernel(data):
    x, threshold, kept, count = data
    chosen = x[x > threshold]
    kept.zero_()
    kept[: len(chosen)] = chosen
    return kept, count.fill_(len(chosen))
