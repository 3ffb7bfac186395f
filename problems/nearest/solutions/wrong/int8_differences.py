"""Subtracts in eight bits, which come round."""


def custom_kernel(data):
    queries, points, output = data
    return output.copy_((queries[:, None] - points[None]).int().square().sum(2).argmin(1))
