"""The library's selection by a mask."""


def custom_kernel(data):
    x, threshold, kept, count = data
    chosen = x[x >= threshold]
    kept[: len(chosen)] = chosen
    kept[len(chosen) :] = 0
    return kept, count.fill_(len(chosen))
