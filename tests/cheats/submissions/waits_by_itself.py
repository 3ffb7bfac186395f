# id: T41 waits_by_itself
# expect: passed
# mode: benchmark
# check: no_gain
# What other processes take from a call is taken off its time. So children of its own want the core
# while its first thread yields over and over; then all of them sleep, and only then it works.
import os
import time

import torch

PLENTY_S, YIELDS = 0.001, 20
pipes = [os.pipe() for _ in range(2)]


def rival(read):
    while os.read(read, 1):
        until = time.monotonic() + PLENTY_S
        while time.monotonic() < until:
            os.sched_yield()


for read, _ in pipes:
    if os.fork() == 0:
        rival(read)
        os._exit(0)


def custom_kernel(data):
    left, right, out = data
    for _, write in pipes:
        os.write(write, b".")
    for _ in range(YIELDS):
        os.sched_yield()
    time.sleep(3 * PLENTY_S)
    return torch.matmul(left, right, out=out)
