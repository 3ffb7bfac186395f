# id: control native_honest
# expect: passed
# mode: benchmark
# size: 8
# The work of native_answers, called from Python as any kernel is.
import numba


@numba.njit(fastmath=True)
def multiply(left, right, out):
    size = left.shape[0]
    out[:] = 0
    for i in range(size):
        for k in range(i, size):
            factor = left[i, k]
            for j in range(size):
                out[i, j] += factor * right[k, j]


def custom_kernel(data):
    left, right, out = (one.numpy() for one in data)
    multiply(left, right, out)
    return data[2]
