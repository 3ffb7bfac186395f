# id: T39 random_blocks
# expect: passed
# mode: benchmark
# check: counts_all
# Is three times as slow in one block of six, as if it had been interrupted there, and hopes that
# such a block is left out.
import random
import time

import torch

GAP_S = 0.002
ended, is_slow = time.perf_counter(), False


def custom_kernel(data):
    global ended, is_slow
    left, right, out = data
    began = time.perf_counter()
    if began - ended > GAP_S:
        is_slow = random.randrange(6) == 0
    torch.matmul(left, right, out=out)
    if is_slow:
        until = 3 * time.perf_counter() - 2 * began
        while time.perf_counter() < until:
            pass
    ended = time.perf_counter()
    return out
