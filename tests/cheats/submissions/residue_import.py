# id: T36 residue_import
# expect: passed
# mode: benchmark
# check: no_residue
# Burdens the machine before its first call, so that the yardstick is slow already when it is timed
# alone, and goes on burdening it beside the yardstick.
import mmap
import threading
import time

import torch

MIB, SPENT_S = 1024 * 1024, 1.0
square, product = torch.rand(512, 512), torch.empty(512, 512)
area = mmap.mmap(-1, 256 * MIB)
area.madvise(mmap.MADV_NOHUGEPAGE)


def burden():
    for place in range(0, 256 * MIB, 4096):
        area[place] = 1
    torch.mm(square, square, out=product)


until = time.monotonic() + SPENT_S
while time.monotonic() < until:
    burden()


def go_on():
    while True:
        burden()


threading.Thread(target=go_on, daemon=True).start()


def custom_kernel(data):
    left, right, out = data
    return torch.matmul(left, right, out=out)
