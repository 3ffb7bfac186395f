# id: T39 random_blocks
# expect: passed
# mode: benchmark
# check: no_residue
# Is three times as slow in one block of six, as if it had been interrupted there. Such a block may
# be left out as an interruption, but the others take no less time for it.
import random
import time

import torch

GAP_S = 0.03
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
