# id: S11 memory_bomb
# expect: out_of_memory crashed
# level: strong
# never_prints: GAINED
# Each memfd is within the limit on a file's size: only a memory cgroup counts their sum.
import mmap
import os

import torch

MOST, EACH = 24, 60 << 20
block, kept = b"x" * EACH, []
while len(kept) < MOST:
    descriptor = os.memfd_create("bomb")
    os.ftruncate(descriptor, EACH)
    memory = mmap.mmap(descriptor, EACH)
    memory.write(block)
    os.close(descriptor)
    kept.append(memory)
print("GAINED", MOST * EACH >> 20, "MiB", flush=True)


def custom_kernel(data):
    left, right, out = data
    return torch.matmul(left, right, out=out)
