# id: T38 random_speed
# expect: passed
# mode: benchmark
# check: counts_all
# Is three times as slow in a call of six, at random, and hopes that those are left out.
import random
import time

import torch


def custom_kernel(data):
    left, right, out = data
    began = time.perf_counter()
    torch.matmul(left, right, out=out)
    if random.randrange(6) == 0:
        until = 3 * time.perf_counter() - 2 * began
        while time.perf_counter() < until:
            pass
    return out
