# id: T45 slow_blocks
# expect: passed
# mode: ranked
# check: counts_all
# Puts off its housekeeping to every sixth block, where all calls take three times as long, so that
# the block is left out as one that the machine interrupted.
import time

import torch

GAP_S = 0.003
ended, blocks = time.perf_counter(), 0


def custom_kernel(data):
    global ended, blocks
    left, right, out = data
    began = time.perf_counter()
    blocks += began - ended > GAP_S
    torch.matmul(left, right, out=out)
    if blocks % 6 == 0:
        until = 3 * time.perf_counter() - 2 * began
        while time.perf_counter() < until:
            pass
    ended = time.perf_counter()
    return out
