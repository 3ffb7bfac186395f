#!POPCORN leaderboard matmul
#!POPCORN gpus CPU
"""The same through NumPy, which brings another library for linear algebra."""

import numpy


def custom_kernel(data):
    a, b, output = data
    numpy.matmul(a.numpy(), b.numpy(), out=output.numpy())
    return output
