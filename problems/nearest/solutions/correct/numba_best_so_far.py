#!POPCORN leaderboard nearest
#!POPCORN gpus CPU
"""Keeps the best point of each query and writes no matrix; the inner sum vectorises."""

import numba
from numba import int32


@numba.njit("void(int8[:, ::1], int8[:, ::1], int32[::1])")
def nearest(queries, points, output):
    for i in range(queries.shape[0]):
        query = queries[i]
        best, place = int32(2**31 - 1), 0
        for j in range(points.shape[0]):
            point = points[j]
            total = int32(0)
            for k in range(query.size):
                apart = int32(query[k]) - int32(point[k])
                total += apart * apart
            if total < best:
                best, place = total, j
        output[i] = place


def custom_kernel(data):
    nearest(*(tensor.numpy() for tensor in data))
    return data[-1]
