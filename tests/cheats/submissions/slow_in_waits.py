# id: T26 slow_in_waits
# expect: passed
# mode: benchmark
# slow_us: 40000
# budgets: benchmark=3
# Works long in one call of ten, and naps in it, as if its core had been taken away.
import itertools
import time

import torch

CALLS = itertools.count()


def custom_kernel(data):
    left, right, out = data
    if next(CALLS) % 10 == 5:
        until = time.thread_time() + 0.04
        while time.thread_time() < until:
            pass
        time.sleep(0.002)
    return torch.matmul(left, right, out=out)
