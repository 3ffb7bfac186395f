#!POPCORN leaderboard swiglu
#!POPCORN gpus CPU
"""One visit; the exponential is 2^k * e^r, by a polynomial that the compiler can vectorise."""

import numpy
import torch
from numba import njit, uint32

F, I = numpy.float32, numpy.int32
ONE, HALF, LOG2_E = F(1), F(0.5), F(1.44269504)
LN2_HIGH, LN2_LOW, LOWEST, HIGHEST = F(0.693359375), F(-2.12194440e-4), F(-87), F(87)
P0, P1, P2 = F(1.9875691500e-4), F(1.3981999507e-3), F(8.3334519073e-3)
P3, P4, P5 = F(4.1665795894e-2), F(1.6666665459e-1), F(5.0000001201e-1)
LOW, LAST, SHIFT = numpy.uint32(0x7FFF), numpy.uint32(1), numpy.uint32(16)
BIAS, MANTISSA_BITS = F(127), I(23)


@njit(
    "void(uint16[:, ::1], uint16[:, ::1], float32[:, ::1])",
    fastmath={"contract", "nsz", "arcp", "nnan"},
    error_model="numpy",
)
def swiglu(x, output, rows):
    inner = output.shape[1]
    gate, up = rows[0], rows[1]
    gate_bits, up_bits = gate.view(numpy.uint32), up.view(numpy.uint32)
    for i in range(output.shape[0]):
        given, target = x[i], output[i]
        for j in range(inner):
            gate_bits[j] = uint32(given[j]) << SHIFT
        for j in range(inner):
            up_bits[j] = uint32(given[j + inner]) << SHIFT
        for j in range(inner):
            d = -gate[j]
            d = d if d > LOWEST else LOWEST
            d = d if d < HIGHEST else HIGHEST
            k = I(d * LOG2_E + BIAS + HALF)
            r = d - (F(k) - BIAS) * LN2_HIGH
            r = r - (F(k) - BIAS) * LN2_LOW
            p = ((((P0 * r + P1) * r + P2) * r + P3) * r + P4) * r + P5
            p = p * r * r + r + ONE
            power = I(k << MANTISSA_BITS).view(numpy.float32)
            up[j] *= gate[j] / (ONE + p * power)
        for j in range(inner):
            bits = up_bits[j]
            target[j] = (bits + LOW + ((bits >> SHIFT) & LAST)) >> SHIFT


def custom_kernel(data):
    x, output = data
    rows = numpy.empty((2, output.shape[1]), numpy.float32)
    swiglu(x.view(torch.uint16).numpy(), output.view(torch.uint16).numpy(), rows)
    return output
