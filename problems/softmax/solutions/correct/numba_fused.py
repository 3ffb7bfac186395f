#!POPCORN leaderboard softmax
#!POPCORN gpus CPU
"""One visit to each row, with an exponential that the compiler can vectorise.

Floats order as integers once the negative ones are turned round, and integer maxima vectorise.
The exponential is 2^k * e^r: k is written into the exponent's bits, e^r is a polynomial (Cephes).
"""

import numpy
from numba import njit

F = numpy.float32
I = numpy.int32
LOG2_E, HALF, ONE = F(1.44269504088896341), F(0.5), F(1)
LN2_HIGH, LN2_LOW = F(0.693359375), F(-2.12194440e-4)
P0, P1, P2 = F(1.9875691500e-4), F(1.3981999507e-3), F(8.3334519073e-3)
P3, P4, P5 = F(4.1665795894e-2), F(1.6666665459e-1), F(5.0000001201e-1)
LOWEST = F(-87)
MAGNITUDE, SIGN_BIT, MANTISSA_BITS, BIAS = I(0x7FFFFFFF), I(31), I(23), I(127)


@njit("void(float32[:, ::1], float32[:, ::1])", fastmath={"contract", "reassoc", "nsz", "arcp"})
def softmax(x, output):
    for row in range(x.shape[0]):
        source, target = x[row], output[row]
        bits = source.view(numpy.int32)
        top = bits[0] ^ ((bits[0] >> SIGN_BIT) & MAGNITUDE)
        for j in range(bits.size):
            key = I(bits[j] ^ ((bits[j] >> SIGN_BIT) & MAGNITUDE))
            top = max(top, key)
        top = I(top ^ ((top >> SIGN_BIT) & MAGNITUDE))
        largest = top.view(numpy.float32)
        total = F(0)
        for j in range(source.size):
            d = source[j] - largest
            d = d if d > LOWEST else LOWEST
            k = I(d * LOG2_E - HALF)
            r = d - F(k) * LN2_HIGH
            r = r - F(k) * LN2_LOW
            p = ((((P0 * r + P1) * r + P2) * r + P3) * r + P4) * r + P5
            p = p * r * r + r + ONE
            value = p * I((k + BIAS) << MANTISSA_BITS).view(numpy.float32)
            target[j] = value
            total += value
        scale = ONE / total
        for j in range(target.size):
            target[j] *= scale


def custom_kernel(data):
    x, output = data
    softmax(x.numpy(), output.numpy())
    return output
