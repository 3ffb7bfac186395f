#!POPCORN leaderboard nbody
#!POPCORN gpus CPU
"""Coordinates in arrays of their own, and one body against vectors of others."""

import numpy
from numba import njit

F = numpy.float32
EPS_SQUARED, ONE = F(2.0**-10), F(1)


@njit(
    "void(float32[:, ::1], float32[:, ::1])",
    fastmath={"contract", "reassoc", "nsz", "arcp"},
    error_model="numpy",
)
def accelerate(columns, output):
    x, y, z, mass = columns[0], columns[1], columns[2], columns[3]
    for i in range(x.size):
        ax = ay = az = F(0)
        for j in range(x.size):
            dx, dy, dz = x[j] - x[i], y[j] - y[i], z[j] - z[i]
            square = dx * dx + dy * dy + dz * dz + EPS_SQUARED
            pull = mass[j] / (square * numpy.sqrt(square))
            ax += pull * dx
            ay += pull * dy
            az += pull * dz
        output[i, 0], output[i, 1], output[i, 2] = ax, ay, az


def custom_kernel(data):
    bodies, output = data
    accelerate(bodies.T.contiguous().numpy(), output.numpy())
    return output
