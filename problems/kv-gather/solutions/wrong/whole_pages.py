"""Copies the last page whole, with the noise behind the length."""


def custom_kernel(data):
    pool, tables, lengths, output = data
    page = pool.shape[1]
    output.zero_()
    for b, length in enumerate(lengths.tolist()):
        for i in range(-(-length // page)):
            output[b, i * page : (i + 1) * page] = pool[tables[b, i]]
    return output
