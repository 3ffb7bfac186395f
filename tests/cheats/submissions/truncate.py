# id: S20 truncate
# expect: passed
# never_prints: TRUNCATED
import os

import torch


def custom_kernel(data):
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            try:
                os.ftruncate(int(name), 0)
                print("TRUNCATED", flush=True)
            except OSError:
                pass
    left, right, out = data
    return torch.matmul(left, right, out=out)
