# id: T43 gpu_residue_work
# expect: passed protocol late_write suspicious
# fails: noisy
# gpu: yes
# mode: benchmark
# check: no_residue
# Leaves work on a second stream in the first call of each block, which does not count, so that the
# device still runs it while it is frozen and the yardstick is timed.
import time

import torch

GAP_S, PRODUCTS = 0.03, 40
side = torch.cuda.Stream()
big, product = torch.randn(4096, 4096, device="cuda"), torch.empty(4096, 4096, device="cuda")
ended = time.perf_counter()


def custom_kernel(data):
    global ended
    left, right, out = data
    is_first = time.perf_counter() - ended > GAP_S
    torch.matmul(left, right, out=out)
    if is_first:
        with torch.cuda.stream(side):
            for _ in range(PRODUCTS):
                torch.mm(big, big, out=product)
    ended = time.perf_counter()
    return out
