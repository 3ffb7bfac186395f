#!POPCORN leaderboard escape-time
#!POPCORN gpus CPU
"""A point after the other, each only as long as it stays."""

import numba


@numba.njit("void(int32[:, ::1], int64, int32[::1])")
def escape(points, steps, output):
    far = 4 << 48
    for i in range(output.size):
        a, b = numba.int64(points[i, 0]), numba.int64(points[i, 1])
        u = v = numba.int64(0)
        step = 0
        while step < steps:
            uu, vv = u * u, v * v
            if uu + vv > far:
                break
            v = ((u * v) >> 23) + b
            u = ((uu - vv) >> 24) + a
            step += 1
        output[i] = step


def custom_kernel(data):
    points, steps, output = data
    escape(points.numpy(), steps, output.numpy())
    return output
