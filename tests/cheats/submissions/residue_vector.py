# id: T31 residue_vector
# expect: passed
# mode: benchmark
# check: no_residue
# Heats the core with wide vector instructions in the first call of each block, which does not
# count, after which some processors are slower for a while.
import time

import torch

GAP_S = 0.03
square, product = torch.rand(512, 512), torch.empty(512, 512)
ended = time.perf_counter()


def custom_kernel(data):
    global ended
    left, right, out = data
    is_first = time.perf_counter() - ended > GAP_S
    torch.matmul(left, right, out=out)
    if is_first:
        for _ in range(2):
            torch.mm(square, square, out=product)
    ended = time.perf_counter()
    return out
