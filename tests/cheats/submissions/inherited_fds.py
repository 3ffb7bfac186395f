# id: S27 inherited_fds
# expect: passed
# prints: DESCRIPTORS ['/dev/null', 'pipe', 'pipe', 'socket']
import os

import torch

names = []
for number in os.listdir("/proc/self/fd"):
    try:
        names.append(os.readlink(f"/proc/self/fd/{number}").partition(":")[0])
    except OSError:
        pass
print("DESCRIPTORS", sorted(names), flush=True)


def custom_kernel(data):
    left, right, out = data
    return torch.matmul(left, right, out=out)
