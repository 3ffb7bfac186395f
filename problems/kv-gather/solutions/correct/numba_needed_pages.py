#!POPCORN leaderboard kv-gather
#!POPCORN gpus CPU
"""Copies the needed pages and clears the rest; every place is written once."""

import numba


@numba.njit("void(int16[:, :, ::1], int32[:, ::1], int32[::1], int16[:, :, ::1])")
def gather(pool, tables, lengths, output):
    page = pool.shape[1]
    for b in range(output.shape[0]):
        length = lengths[b]
        for first in range(0, length, page):
            count = min(page, length - first)
            output[b, first : first + count] = pool[tables[b, first // page], :count]
        output[b, length:] = 0


def custom_kernel(data):
    gather(*(tensor.numpy() for tensor in data))
    return data[-1]
