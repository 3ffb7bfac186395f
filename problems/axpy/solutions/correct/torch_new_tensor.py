#!POPCORN leaderboard axpy
"""Two new tensors: right, and slower."""


def custom_kernel(data):
    a, x, y = data
    return y + a * x
