#!POPCORN leaderboard nearest
"""As it is written: all differences, squared and added up."""


def custom_kernel(data):
    queries, points, output = data
    for first in range(0, len(queries), 64):
        block = queries[first : first + 64, None].int() - points[None].int()
        distances = block.square_().sum(2)
        output[first : first + 64] = distances.argmin(1)
    return output
