#!POPCORN leaderboard identity
"""The library's copy."""


def custom_kernel(data):
    source, output = data
    return output.copy_(source)
