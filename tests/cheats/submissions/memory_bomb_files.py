# id: S11 memory_bomb
# expect: out_of_memory crashed
# level: strong
# never_prints: GAINED
# Each memfd is within the limit on a file's size: only a memory cgroup counts their sum.
import mmap
import os

import torch

MOST = 48
kept = []


def custom_kernel(data):
    while len(kept) < MOST:
        descriptor = os.memfd_create("bomb")
        os.ftruncate(descriptor, 60 << 20)
        memory = mmap.mmap(descriptor, 60 << 20)
        memory.write(b"x" * (60 << 20))
        os.close(descriptor)
        kept.append(memory)
    print("GAINED", MOST * 60, "MiB", flush=True)
    return data[2]
