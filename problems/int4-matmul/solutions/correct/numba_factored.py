#!POPCORN leaderboard int4-matmul
#!POPCORN gpus CPU
"""Scale and zero outside of the inner loop; even and odd inputs lie apart, so that it vectorises."""

import numpy
from numba import float32, njit, uint8

F = numpy.float32
LOW, FOUR, ZERO = numpy.uint8(15), numpy.uint8(4), F(0)


@njit(
    "void(float32[:, :, ::1], float32[:, ::1], uint8[:, ::1], float32[:, ::1], uint8[:, ::1],"
    " float32[:, ::1])",
    fastmath={"contract", "reassoc", "nsz"},
)
def multiply(x, sums, packed, scales, zeros, output):
    groups = scales.shape[1]
    half = packed.shape[1] // groups
    for t in range(output.shape[0]):
        even, odd = x[0, t], x[1, t]
        for o in range(output.shape[1]):
            total = ZERO
            for g in range(groups):
                bytes_ = packed[o, g * half : (g + 1) * half]
                some, others = even[g * half : (g + 1) * half], odd[g * half : (g + 1) * half]
                product = ZERO
                for i in range(half):
                    product += some[i] * float32(uint8(bytes_[i] & LOW))
                    product += others[i] * float32(uint8(bytes_[i] >> FOUR))
                total += scales[o, g] * (product - float32(zeros[o, g]) * sums[t, g])
            output[t, o] = total


def custom_kernel(data):
    x, packed, scales, zeros, output = data
    wide = x.float()
    apart = wide.view(len(x), -1, 2).permute(2, 0, 1).contiguous()
    sums = wide.view(len(x), scales.shape[1], -1).sum(2)
    given = [tensor.numpy() for tensor in (apart, sums, packed, scales, zeros, output)]
    multiply(*given)
    return output
