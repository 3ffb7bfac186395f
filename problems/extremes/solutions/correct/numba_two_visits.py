#!POPCORN leaderboard extremes
#!POPCORN gpus CPU
"""Each row twice while it is in the cache: its extremes, vectorised, and then their places."""

import numba


@numba.njit(
    "void(float32[:, ::1], float32[::1], float32[::1], int32[::1], int32[::1])",
    fastmath={"nnan", "nsz", "reassoc"},
)
def extremes(x, low, high, low_at, high_at):
    for row in range(x.shape[0]):
        values = x[row]
        least, most = values[0], values[0]
        for j in range(values.size):
            least = min(least, values[j])
            most = max(most, values[j])
        low[row], high[row] = least, most
        j = 0
        while values[j] != least:
            j += 1
        low_at[row] = j
        j = 0
        while values[j] != most:
            j += 1
        high_at[row] = j


def custom_kernel(data):
    extremes(*(tensor.numpy() for tensor in data))
    return data[1:]
