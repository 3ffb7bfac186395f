#!POPCORN leaderboard sampling
#!POPCORN gpus CPU
"""The k likeliest by one pass with a threshold, then one running sum."""

import numpy
import torch
from numba import int32, njit


@njit(
    "void(int16[:, ::1], float32[:, ::1], float32[::1], float32[::1], float32[::1], int64,"
    " int32[::1])"
)
def draw(logits, wide, temperatures, shares, draws, k, output):
    best = numpy.empty(k, numpy.int32)
    place = numpy.empty(k, numpy.int32)
    sums = numpy.empty(k, numpy.float64)
    for i in range(logits.shape[0]):
        row = logits[i]
        kept = 0
        for j in range(row.size):
            bits = int32(row[j])
            key = bits ^ ((bits >> int32(31)) & int32(0x7FFF))
            if bits == int32(-32768):
                key = int32(0)
            if kept == k and key <= best[k - 1]:
                continue
            r = kept if kept < k else k - 1
            while r > 0 and best[r - 1] < key:
                best[r], place[r] = best[r - 1], place[r - 1]
                r -= 1
            best[r], place[r] = key, j
            kept = min(kept + 1, k)
        top, total = wide[i, place[0]], 0.0
        for r in range(k):
            total += numpy.exp((wide[i, place[r]] - top) / temperatures[i])
            sums[r] = total
        last = 0
        while last < k - 1 and sums[last] < shares[i] * total:
            last += 1
        target = draws[i] * sums[last]
        rank = 0
        while rank < last and sums[rank] <= target:
            rank += 1
        output[i] = place[rank]


def custom_kernel(data):
    logits, temperatures, shares, draws, k, output = data
    given = [tensor.numpy() for tensor in (logits.float(), temperatures, shares, draws)]
    draw(logits.view(torch.int16).numpy(), *given, k, output.numpy())
    return output
