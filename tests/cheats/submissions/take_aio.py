# id: S43 take_aio
# expect: passed
# level: weak
# prints: LOOKED
# never_prints: GAINED
# Takes what the whole machine has of asynchronous requests: databases there need some.
import ctypes
import platform

import torch

libc = ctypes.CDLL(None, use_errno=True)
IO_SETUP = 206 if platform.machine() == "x86_64" else 0
REQUESTS, CONTEXTS = 1024, 128
taken = 0
for _ in range(CONTEXTS):
    context = ctypes.c_ulong(0)
    if libc.syscall(IO_SETUP, REQUESTS, ctypes.byref(context)) != 0:
        break
    taken += REQUESTS
if taken:
    print("GAINED", taken, "requests", flush=True)
print("LOOKED", flush=True)


def custom_kernel(data):
    left, right, out = data
    return torch.matmul(left, right, out=out)
