# id: T44 gpu_residue_heat
# expect: passed protocol suspicious
# fails: noisy
# gpu: yes
# mode: benchmark
# check: no_residue
# Heats the device in the first call of each block, which does not count, so that its clock is lower
# while the yardstick is timed.
import time

import torch

GAP_S, PRODUCTS = 0.03, 40
big = torch.randn(4096, 4096, device="cuda", dtype=torch.float16)
product = torch.empty_like(big)
ended = time.perf_counter()


def custom_kernel(data):
    global ended
    left, right, out = data
    is_first = time.perf_counter() - ended > GAP_S
    torch.matmul(left, right, out=out)
    if is_first:
        for _ in range(PRODUCTS):
            torch.mm(big, big, out=product)
    ended = time.perf_counter()
    return out
