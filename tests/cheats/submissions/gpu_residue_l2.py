# id: T42 gpu_residue_l2
# expect: passed
# gpu: yes
# mode: benchmark
# check: no_residue
# Sets a part of the cache aside and fills it with data of its own in every call, so that the
# yardstick has a smaller cache beside it.
import ctypes

import torch

PERSISTING, SET_ASIDE = 6, 32 << 20
torch.cuda.init()
driver = ctypes.CDLL("libcuda.so.1")
junk = torch.zeros(SET_ASIDE // 4, device="cuda")
print("LIMIT", driver.cuCtxSetLimit(PERSISTING, ctypes.c_size_t(SET_ASIDE)), flush=True)


def custom_kernel(data):
    left, right, out = data
    torch.matmul(left, right, out=out)
    junk.add_(1)
    return out
