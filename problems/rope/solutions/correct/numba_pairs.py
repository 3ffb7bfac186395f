#!POPCORN leaderboard rope
#!POPCORN gpus CPU
"""Pair by pair in place; bfloat16 is the upper half of a float32."""

import numpy
import torch
from numba import njit, uint32

HALF, LAST, SHIFT = numpy.uint32(0x7FFF), numpy.uint32(1), numpy.uint32(16)


@njit(
    "void(uint16[:, :, ::1], float32[:, ::1], float32[:, ::1], int64[::1], float32[::1])",
    fastmath={"contract"},
)
def turn(x, cosines, sines, positions, row):
    bits = row.view(numpy.uint32)
    pairs = x.shape[2] // 2
    for t in range(x.shape[0]):
        c, s = cosines[positions[t]], sines[positions[t]]
        for h in range(x.shape[1]):
            head = x[t, h]
            for j in range(2 * pairs):
                bits[j] = uint32(head[j]) << SHIFT
            for i in range(pairs):
                first, second = row[i], row[i + pairs]
                row[i] = first * c[i] - second * s[i]
                row[i + pairs] = second * c[i] + first * s[i]
            for j in range(2 * pairs):
                head[j] = (bits[j] + HALF + ((bits[j] >> SHIFT) & LAST)) >> SHIFT


def custom_kernel(data):
    q, k, *rest = data
    row = numpy.empty(q.shape[2], numpy.float32)
    angles = [tensor.numpy() for tensor in rest]
    for tensor in (q, k):
        turn(tensor.view(torch.uint16).numpy(), *angles, row)
    return q, k
