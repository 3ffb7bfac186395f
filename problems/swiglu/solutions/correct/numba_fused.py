#!POPCORN leaderboard swiglu
#!POPCORN gpus CPU
"""One visit; the exponential is 2^k * e^r, by a polynomial that the compiler can vectorise."""

import numpy
import torch
from numba import int32, njit, uint32

F = numpy.float32
ONE, HALF, LOG2_E = F(1), F(0.5), F(1.44269504)
LN2_HIGH, LN2_LOW, LOWEST, HIGHEST = F(0.693359375), F(-2.12194440e-4), F(-87), F(87)
P0, P1, P2 = F(1.9875691500e-4), F(1.3981999507e-3), F(8.3334519073e-3)
P3, P4, P5 = F(4.1665795894e-2), F(1.6666665459e-1), F(5.0000001201e-1)
LOW, LAST, SHIFT = numpy.uint32(0x7FFF), numpy.uint32(1), numpy.uint32(16)


@njit(
    "void(uint16[:, ::1], uint16[:, ::1], float32[:, ::1])", fastmath={"contract", "nsz", "arcp"}
)
def swiglu(x, output, rows):
    inner = output.shape[1]
    gate, up, power = rows[0], rows[1], rows[2]
    gate_bits, up_bits = gate.view(numpy.uint32), up.view(numpy.uint32)
    power_bits = power.view(numpy.int32)
    for i in range(output.shape[0]):
        given, target = x[i], output[i]
        for j in range(inner):
            gate_bits[j] = uint32(given[j]) << SHIFT
            up_bits[j] = uint32(given[j + inner]) << SHIFT
        for j in range(inner):
            d = min(max(-gate[j], LOWEST), HIGHEST)
            k = int32(d * LOG2_E + (HALF if d > 0 else -HALF))
            power_bits[j] = (k + int32(127)) << int32(23)
            r = d - F(k) * LN2_HIGH
            r = r - F(k) * LN2_LOW
            p = ((((P0 * r + P1) * r + P2) * r + P3) * r + P4) * r + P5
            p = p * r * r + r + ONE
            gate[j] = gate[j] / (ONE + p * power[j]) * up[j]
        for j in range(inner):
            bits = gate_bits[j]
            target[j] = (bits + LOW + ((bits >> SHIFT) & LAST)) >> SHIFT


def custom_kernel(data):
    x, output = data
    rows = numpy.empty((3, output.shape[1]), numpy.float32)
    swiglu(x.view(torch.uint16).numpy(), output.view(torch.uint16).numpy(), rows)
    return output
