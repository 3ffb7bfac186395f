"""Takes one page too few where a length is a multiple of the page."""


def custom_kernel(data):
    pool, tables, lengths, output = data
    page = pool.shape[1]
    output.zero_()
    for b, length in enumerate(lengths.tolist()):
        for i in range((length - 1) // page):
            output[b, i * page : (i + 1) * page] = pool[tables[b, i]]
        rest = length % page
        last = length - rest
        if rest:
            output[b, last:length] = pool[tables[b, last // page], :rest]
    return output
