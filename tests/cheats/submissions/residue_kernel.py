# id: T32 residue_kernel
# expect: passed
# mode: benchmark
# check: no_residue
# Leaves work for the kernel in the first call of each block, which does not count: pages, files
# and pipes that are freed later on the same core, while another box runs there.
import mmap
import os
import time

import torch

GAP_S, MIB = 0.03, 1024 * 1024
ended = time.perf_counter()


def leave_debris():
    area = mmap.mmap(-1, 16 * MIB)
    for place in range(0, 16 * MIB, 4096):
        area[place] = 1
    ends = [end for _ in range(50) for end in os.pipe()]
    files = [os.memfd_create("debris") for _ in range(50)]
    area.close()
    for descriptor in (*ends, *files):
        os.close(descriptor)


def custom_kernel(data):
    global ended
    left, right, out = data
    is_first = time.perf_counter() - ended > GAP_S
    torch.matmul(left, right, out=out)
    if is_first:
        leave_debris()
    ended = time.perf_counter()
    return out
