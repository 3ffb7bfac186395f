# id: S41 address_space
# expect: passed
# prints: LOOKED
# never_prints: GAINED
# Page tables take a 512th of what is mapped, and long to be taken down: maps more than a box may,
# which is 64 times its memory.
import ctypes

import torch

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
PROT_READ, PRIVATE_ANONYMOUS_NORESERVE = 1, 0x4022
STEP, MOST = 8 << 30, 128 << 30
FAILED = 2**64 - 1

mapped = 0
while mapped < MOST and LIBC.mmap(None, STEP, PROT_READ, PRIVATE_ANONYMOUS_NORESERVE, -1, 0) != FAILED:
    mapped += STEP
if mapped > 64 << 30:
    print("GAINED", mapped >> 30, "GiB", flush=True)
print("LOOKED", mapped >> 30, "GiB", flush=True)


def custom_kernel(data):
    left, right, out = data
    return torch.matmul(left, right, out=out)
