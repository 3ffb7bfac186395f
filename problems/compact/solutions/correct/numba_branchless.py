#!POPCORN leaderboard compact
#!POPCORN gpus CPU
"""Every value is written; the place moves on by the outcome of the comparison, without a branch."""

import numba


@numba.njit("int64(int32[::1], int64, int32[::1])")
def compact(x, threshold, kept):
    place = 0
    for i in range(x.size):
        kept[place] = x[i]
        place += x[i] >= threshold
    kept[place:] = 0
    return place


def custom_kernel(data):
    x, threshold, kept, count = data
    return kept, count.fill_(compact(x.numpy(), threshold, kept.numpy()))
