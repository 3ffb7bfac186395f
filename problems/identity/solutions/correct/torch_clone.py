#!POPCORN leaderboard identity
"""Returns a new tensor: right, and slower, for its pages are new and it is copied once more."""


def custom_kernel(data):
    source, _ = data
    return source.clone()
