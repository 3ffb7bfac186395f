# id: control native_honest
# expect: passed
# mode: benchmark
# size: 8
# The work of native_answers, called with as little Python as an honest kernel can do with.
import ctypes

import numba


@numba.cfunc("void(CPointer(float32), CPointer(float32), CPointer(float32), int64)", fastmath=True)
def multiply(left, right, out, size):
    for i in range(size):
        for j in range(size):
            out[i * size + j] = 0
        for k in range(i, size):
            factor = left[i * size + k]
            for j in range(size):
                out[i * size + j] += factor * right[k * size + j]


CALL = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_int64)(multiply.address)
PREPARED = {}


def custom_kernel(data):
    out = data[2]
    arguments = PREPARED.get(out.data_ptr())
    if arguments is None:
        addresses = [ctypes.c_void_p(one.data_ptr()) for one in data]
        arguments = (*addresses, ctypes.c_int64(len(out)))
        PREPARED[out.data_ptr()] = arguments
    CALL(*arguments)
    return out
