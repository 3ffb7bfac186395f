"""Adds up the differences instead of their squares."""


def custom_kernel(data):
    queries, points, output = data
    return output.copy_((queries[:, None].int() - points[None].int()).abs().sum(2).argmin(1))
