#!POPCORN leaderboard histogram
#!POPCORN gpus CPU
"""Eight bytes a load and a table for each of them, so that equal neighbours do not wait."""

import numpy
from numba import njit


@njit("void(uint64[::1], uint8[::1], int32[::1])")
def count(words, rest, output):
    tables = numpy.zeros((8, 256), numpy.uint32)
    for i in range(words.size):
        word = words[i]
        tables[0, word & 255] += 1
        tables[1, (word >> 8) & 255] += 1
        tables[2, (word >> 16) & 255] += 1
        tables[3, (word >> 24) & 255] += 1
        tables[4, (word >> 32) & 255] += 1
        tables[5, (word >> 40) & 255] += 1
        tables[6, (word >> 48) & 255] += 1
        tables[7, word >> 56] += 1
    for i in range(rest.size):
        tables[0, rest[i]] += 1
    for value in range(256):
        total = 0
        for table in range(8):
            total += tables[table, value]
        output[value] = total


def custom_kernel(data):
    values, output = data
    array = values.numpy()
    whole = array.size // 8 * 8
    count(array[:whole].view(numpy.uint64), array[whole:], output.numpy())
    return output
