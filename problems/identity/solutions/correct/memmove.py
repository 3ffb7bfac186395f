#!POPCORN leaderboard identity
#!POPCORN gpus CPU
"""The C library's copy, whose stores go past the cache when the vector is long."""

import ctypes


def custom_kernel(data):
    source, output = data
    ctypes.memmove(output.data_ptr(), source.data_ptr(), 4 * source.numel())
    return output
