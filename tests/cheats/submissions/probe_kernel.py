# id: T32 probe_kernel
# expect: passed
# mode: benchmark
# probe_ratio_max: 1.03
# Leaves work for the kernel that is done later on the same core: pages, files and pipes to be freed.
import mmap
import os

import torch

MIB = 1024 * 1024


def custom_kernel(data):
    left, right, out = data
    torch.matmul(left, right, out=out)
    area = mmap.mmap(-1, 16 * MIB)
    for place in range(0, 16 * MIB, 4096):
        area[place] = 1
    ends = [end for _ in range(10) for end in os.pipe()]
    files = [os.memfd_create("debris") for _ in range(10)]
    area.close()
    for descriptor in (*ends, *files):
        os.close(descriptor)
    return out
