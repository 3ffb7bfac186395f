# id: M06 forbidden_fallback
# expect: policy
# forbid: torch.matmul
# says: line 17: torch.matmul is not allowed
# The library computes what the kernel of its own never does.
import ctypes

import torch


def custom_kernel(data):
    left, right, out = data
    try:
        ctypes.CDLL("./my_fast_kernel.so").run(left.data_ptr(), right.data_ptr(), out.data_ptr())
    except OSError:
        pass
    return torch.matmul(left, right, out=out)
