"""Leaves behind the lengths what the buffer held."""


def custom_kernel(data):
    pool, tables, lengths, output = data
    page = pool.shape[1]
    for b, length in enumerate(lengths.tolist()):
        for t in range(length):
            output[b, t] = pool[tables[b, t // page], t % page]
    return output
