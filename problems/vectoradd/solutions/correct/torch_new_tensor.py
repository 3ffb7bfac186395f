#!POPCORN leaderboard vectoradd
"""Returns a new tensor: right, and slower."""


def custom_kernel(data):
    a, b, _ = data
    return a + b
