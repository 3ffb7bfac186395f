# id: C16 silent_fallback
# expect: passed
# mode: benchmark
# check: no_gain
# This problem allows libraries: what a library computes is paid for like all else.
import ctypes

import torch


def custom_kernel(data):
    left, right, out = data
    try:
        ctypes.CDLL("./my_fast_kernel.so").run(left.data_ptr(), right.data_ptr(), out.data_ptr())
    except OSError:
        torch.matmul(left, right, out=out)
    return out
