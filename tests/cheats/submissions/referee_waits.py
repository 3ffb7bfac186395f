# id: T40 referee_waits
# expect: passed
# mode: benchmark
# slow_us: 5000
# budgets: benchmark=5
# Works long in one call of six, and disturbs every core in it (barriers, pages that are unmapped in
# several threads, timers), so that the process with the clock seems to have waited.
import ctypes
import itertools
import mmap
import platform
import threading
import time

import torch

CALLS, SLOW_S, MIB = itertools.count(), 0.005, 1024 * 1024
LIBC = ctypes.CDLL(None)
MEMBARRIER = 324 if platform.machine() == "x86_64" else 283
GLOBAL_EXPEDITED, EXPEDITED, REGISTER = 2, 8, 16
LIBC.syscall(MEMBARRIER, REGISTER, 0, 0)
storm = threading.Event()


def unmap():
    while storm.wait():
        with mmap.mmap(-1, MIB) as area:
            for place in range(0, MIB, 4096):
                area[place] = 1


for _ in range(3):
    threading.Thread(target=unmap, daemon=True).start()


def custom_kernel(data):
    left, right, out = data
    if next(CALLS) % 6 == 5:
        storm.set()
        until = time.perf_counter() + SLOW_S
        while time.perf_counter() < until:
            for command in (GLOBAL_EXPEDITED, EXPEDITED):
                LIBC.syscall(MEMBARRIER, command, 0, 0)
        storm.clear()
    return torch.matmul(left, right, out=out)
