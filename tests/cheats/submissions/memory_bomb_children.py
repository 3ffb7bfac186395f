# id: S11 memory_bomb
# expect: out_of_memory crashed timed_out
# long: its children fill the memory one after the other
# level: strong
# budgets: build=8 test=8
# never_prints: GAINED
# Each child is within the limit on one process: only a memory cgroup counts their sum.
import os
import time

import torch

CHILDREN, EACH = 12, 250 << 20


def custom_kernel(data):
    reader, writer = os.pipe()
    for _ in range(CHILDREN):
        if os.fork() == 0:
            kept = bytearray(EACH)
            kept[::4096] = b"x" * (EACH // 4096)
            os.write(writer, b"x")
            time.sleep(60)
            os._exit(len(kept) % 2)
    held = 0
    while held < CHILDREN:
        held += len(os.read(reader, 1))
    print("GAINED", CHILDREN * EACH >> 20, "MiB", flush=True)
    return data[2]
