# id: T34 residue_pages
# expect: passed
# mode: benchmark
# check: no_residue
# Dirties as many pages of its memory and of its scratch folder as it may, and takes them in pieces
# that leave no huge page whole, so that the kernel has to search, compact and write back.
import mmap
import os
import tempfile
import time

import torch

GAP_S, MIB, PIECES = 0.03, 1024 * 1024, 256
ended = time.perf_counter()
area = mmap.mmap(-1, PIECES * MIB)
area.madvise(mmap.MADV_HUGEPAGE)
folder = tempfile.mkdtemp()


def scatter():
    for place in range(0, PIECES * MIB, 4096):
        area[place] = 1
    for place in range(0, PIECES * MIB, 8192):
        area.madvise(mmap.MADV_DONTNEED, place, 4096)


def write():
    for number in range(16):
        with open(os.path.join(folder, str(number)), "wb") as file:
            file.write(bytes(MIB))


scatter()


def custom_kernel(data):
    global ended
    left, right, out = data
    is_first = time.perf_counter() - ended > GAP_S
    torch.matmul(left, right, out=out)
    if is_first:
        write()
        area.madvise(mmap.MADV_DONTNEED, 0, 16 * MIB)
        for place in range(0, 16 * MIB, 8192):
            area[place] = 1
    ended = time.perf_counter()
    return out
