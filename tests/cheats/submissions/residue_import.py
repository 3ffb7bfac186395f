# id: T36 residue_import
# expect: passed
# mode: benchmark
# check: no_residue
# Burdens the machine before its first call, so that the yardstick is slow already when it is timed
# alone, and goes on in the first call of each block, which does not count.
import mmap
import time

import torch

GAP_S, SPENT_S, MIB = 0.03, 1.0, 1024 * 1024
square, product = torch.rand(512, 512), torch.empty(512, 512)
area = mmap.mmap(-1, 256 * MIB)
area.madvise(mmap.MADV_NOHUGEPAGE)


def burden(size):
    for place in range(0, size, 4096):
        area[place] = 1
    area.madvise(mmap.MADV_DONTNEED)
    torch.mm(square, square, out=product)


until = time.monotonic() + SPENT_S
while time.monotonic() < until:
    burden(len(area))
ended = time.perf_counter()


def custom_kernel(data):
    global ended
    left, right, out = data
    is_first = time.perf_counter() - ended > GAP_S
    torch.matmul(left, right, out=out)
    if is_first:
        burden(16 * MIB)
    ended = time.perf_counter()
    return out
