#!POPCORN leaderboard rmsnorm
#!POPCORN gpus CPU
"""Both in one visit to each row; bfloat16 is the upper half of a float32."""

import numpy
import torch
from numba import njit, uint32

F, U = numpy.float32, numpy.uint32
EPS, ONE = F(1e-6), F(1)
HALF, LAST, SHIFT = U(0x7FFF), U(1), U(16)


@njit(
    "void(uint16[:, ::1], uint16[:, ::1], uint16[::1], uint16[:, ::1], float32[::1])",
    fastmath={"contract", "reassoc", "nsz"},
)
def normalise(x, residual, weight, output, row):
    bits = row.view(numpy.uint32)
    width = row.size
    for i in range(x.shape[0]):
        given, stream, target = x[i], residual[i], output[i]
        squares = F(0)
        for j in range(width):
            bits[j] = uint32(given[j]) << SHIFT
            a = row[j]
            bits[j] = uint32(stream[j]) << SHIFT
            row[j] += a
            short = (bits[j] + HALF + ((bits[j] >> SHIFT) & LAST)) >> SHIFT
            stream[j] = short
            bits[j] = short << SHIFT
            squares += row[j] * row[j]
        scale = ONE / numpy.sqrt(squares / F(width) + EPS)
        for j in range(width):
            a = row[j] * scale
            bits[j] = uint32(weight[j]) << SHIFT
            row[j] *= a
            target[j] = (bits[j] + HALF + ((bits[j] >> SHIFT) & LAST)) >> SHIFT


def custom_kernel(data):
    _, residual, weight, output = data
    row = numpy.empty(weight.numel(), numpy.float32)
    normalise(*(tensor.view(torch.uint16).numpy() for tensor in data), row)
    return residual, output
