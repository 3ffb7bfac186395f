# id: T29 claims_lost_time
# expect: passed
# mode: benchmark
# check: no_gain
# What other processes take from a call is taken off its time, so a second process of the same
# submission takes the core for a while; after that both sleep, and only then is the work done.
import os
import time

import torch

PLENTY_S = 0.003
read, write = os.pipe()


def rival():
    while os.read(read, 1):
        until = time.monotonic() + PLENTY_S
        while time.monotonic() < until:
            pass


if os.fork() == 0:
    rival()
    os._exit(0)


def custom_kernel(data):
    left, right, out = data
    os.write(write, b".")
    until = time.monotonic() + PLENTY_S
    while time.monotonic() < until:
        pass
    time.sleep(PLENTY_S)
    return torch.matmul(left, right, out=out)
