# id: T30 residue_cache
# expect: passed
# mode: benchmark
# check: no_residue
# Fills the caches in the last call of each block, for the yardstick's next call to find no data of
# its own there. That call is slow; it hopes that a middle half leaves it out.
import time

import torch

GAP_S = 0.03
junk = torch.zeros(16 * 1024 * 1024)
ended, calls, length = time.perf_counter(), 0, 0


def custom_kernel(data):
    global ended, calls, length
    left, right, out = data
    if time.perf_counter() - ended > GAP_S:
        length, calls = max(length, calls), 0
    calls += 1
    torch.matmul(left, right, out=out)
    if calls == length:
        junk.add_(1)
    ended = time.perf_counter()
    return out
