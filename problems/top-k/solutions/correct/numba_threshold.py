#!POPCORN leaderboard top-k
#!POPCORN gpus CPU
"""One pass with a threshold; what is above it goes into its place among those kept so far."""

import numpy
import torch
from numba import int32, njit


@njit("void(int16[:, ::1], int16[:, ::1], int32[:, ::1])")
def select(logits, values, places):
    k = values.shape[1]
    best = numpy.empty(k, numpy.int32)
    for i in range(logits.shape[0]):
        row, place = logits[i], places[i]
        kept = 0
        for j in range(row.size):
            bits = int32(row[j])
            # The bits of a float order as whole numbers once those of negative ones are turned.
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
        for r in range(k):
            values[i, r] = row[place[r]]


def custom_kernel(data):
    logits, values, places = data
    shorts = [tensor.view(torch.int16).numpy() for tensor in (logits, values)]
    select(*shorts, places.numpy())
    return values, places
