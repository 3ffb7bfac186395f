# id: T41 waits_by_itself
# expect: passed
# mode: benchmark
# check: no_gain
# What other processes take from a call is taken off its time. So its own threads take the core from
# its first one, which yields over and over; then all of them sleep, and only then it works.
import os
import threading
import time

import torch

ROUNDS = 200
go = threading.Event()


def rival():
    while go.wait():
        until = time.perf_counter() + 0.0005
        while time.perf_counter() < until:
            pass


for _ in range(3):
    threading.Thread(target=rival, daemon=True).start()


def custom_kernel(data):
    left, right, out = data
    go.set()
    for _ in range(ROUNDS):
        os.sched_yield()
    go.clear()
    time.sleep(0.001)
    return torch.matmul(left, right, out=out)
