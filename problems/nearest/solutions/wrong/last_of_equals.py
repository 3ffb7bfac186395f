"""Of points that are equally near takes the last."""


def custom_kernel(data):
    queries, points, output = data
    wide = points.double()
    distances = wide.square().sum(1) - 2 * queries.double() @ wide.T
    return output.copy_(len(points) - 1 - distances.flip(1).argmin(1))
