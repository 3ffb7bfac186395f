# id: T26 jit_in_window
# expect: passed
# long: it tunes itself for a second
# mode: benchmark
# time_us_min: 10000
# Tunes itself in three calls of four; the time that it takes is its own.
import time

import torch

calls = []


def custom_kernel(data):
    left, right, out = data
    calls.append(0)
    until = time.perf_counter() + (0.02 if len(calls) % 4 else 0)
    while time.perf_counter() < until:
        compile("\n".join(f"a{i} = {i} * {i}" for i in range(200)), "tuned", "exec")
    return torch.matmul(left, right, out=out)
