"""The right values, ordered by size."""


def custom_kernel(data):
    x, threshold, kept, count = data
    chosen = x[x >= threshold].sort().values
    kept.zero_()
    kept[: len(chosen)] = chosen
    return kept, count.fill_(len(chosen))
