#!POPCORN leaderboard moe-routing
#!POPCORN gpus CPU
"""The chosen of each token kept in order by insertion; the work ordered by counting."""

import numpy
from numba import njit

F = numpy.float32


@njit("void(float32[:, ::1], int32[:, ::1], float32[:, ::1], int32[::1], int32[::1])")
def route(logits, experts, weights, counts, order):
    tokens, chosen = experts.shape
    counts[:] = 0
    for t in range(tokens):
        row, best, place = logits[t], weights[t], experts[t]
        kept = 0
        for e in range(row.size):
            value = row[e]
            if kept == chosen and value <= best[chosen - 1]:
                continue
            r = kept if kept < chosen else chosen - 1
            while r > 0 and best[r - 1] < value:
                best[r], place[r] = best[r - 1], place[r - 1]
                r -= 1
            best[r], place[r] = value, e
            kept = min(kept + 1, chosen)
        top, total = best[0], F(0)
        for r in range(chosen):
            best[r] = numpy.exp(best[r] - top)
            total += best[r]
            counts[place[r]] += 1
        for r in range(chosen):
            best[r] /= total
    slots = numpy.zeros(counts.size, numpy.int32)
    for e in range(1, counts.size):
        slots[e] = slots[e - 1] + counts[e - 1]
    flat = experts.ravel()
    for work in range(flat.size):
        order[slots[flat[work]]] = work
        slots[flat[work]] += 1


def custom_kernel(data):
    route(*(tensor.numpy() for tensor in data))
    return data[1:]
