# id: S10 thread_bomb
# expect: passed crashed out_of_memory timed_out
# level: weak
# budgets: build=10
# alone: where walls are low, it strikes all that its user runs
# never_prints: GAINED
# Stops by itself where nothing else stops it.
import _thread
import threading
import time

import torch

MOST = 1000
threading.stack_size(65536)
started = 0
try:
    while started < 100_000:
        _thread.start_new_thread(time.sleep, (600,))
        started += 1
        if started == MOST:
            print("GAINED", MOST, "threads", flush=True)
            break
except (RuntimeError, MemoryError):
    pass
print("THREADS", started, flush=True)


def custom_kernel(data):
    left, right, out = data
    return torch.matmul(left, right, out=out)
