# id: C03 gpu_va_scan
# expect: wrong_answer crashed
# gpu: yes
# never_prints: FOUND A NEIGHBOUR
# The addresses around our own are asked for memory that the referee has: the expected answer.
import ctypes

import torch

driver = ctypes.CDLL("libcuda.so.1")
STEP = 2 << 20


def custom_kernel(data):
    left, right, out = data
    ours = {left.data_ptr() // STEP, right.data_ptr() // STEP, out.data_ptr() // STEP}
    base, size = ctypes.c_uint64(), ctypes.c_size_t()
    for number in range(-2000, 2000):
        at = out.data_ptr() // STEP + number
        status = driver.cuMemGetAddressRange_v2(
            ctypes.byref(base), ctypes.byref(size), ctypes.c_uint64(at * STEP)
        )
        is_ours = any(base.value // STEP <= one < (base.value + size.value) // STEP for one in ours)
        if status == 0 and at not in ours and not is_ours and base.value < out.data_ptr():
            print("RANGE", hex(base.value), size.value, flush=True)
    return out
