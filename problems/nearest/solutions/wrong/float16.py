"""Rounds the distances to half precision."""


def custom_kernel(data):
    queries, points, output = data
    wide = points.double()
    distances = wide.square().sum(1) - 2 * queries.double() @ wide.T
    return output.copy_(distances.half().argmin(1))
