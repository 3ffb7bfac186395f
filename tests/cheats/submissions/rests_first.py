# id: T37 rests_first
# expect: passed
# mode: benchmark
# check: no_residue
# Knows the first call of a block by the time since the last one, and rests in it: it does not
# count, and a core that has rested may run faster in the calls after it.
import time

import torch

GAP_S, REST_S = 0.03, 0.01
ended = time.perf_counter()


def custom_kernel(data):
    global ended
    left, right, out = data
    is_first = time.perf_counter() - ended > GAP_S
    torch.matmul(left, right, out=out)
    if is_first:
        time.sleep(REST_S)
    ended = time.perf_counter()
    return out
