#!POPCORN leaderboard grayscale
#!POPCORN gpus CPU
"""One pass: the compiler vectorises the loop and shuffles the channels apart."""

import numpy
from numba import njit

RED, GREEN, BLUE = (numpy.float32(weight / 255) for weight in (0.299, 0.587, 0.114))


@njit("void(uint8[::1], float32[::1])", fastmath={"contract"})
def luma(image, output):
    for i in range(output.size):
        output[i] = RED * image[3 * i] + GREEN * image[3 * i + 1] + BLUE * image[3 * i + 2]


def custom_kernel(data):
    image, output = data
    luma(image.view(-1).numpy(), output.view(-1).numpy())
    return output
