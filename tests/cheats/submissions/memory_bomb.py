# id: S11 memory_bomb
# expect: out_of_memory
# alone: beside others it may be cut off for its slowness first
# never_prints: GAINED
# Touches what it takes; stops by itself, far beyond the limit, where nothing else stops it.
import torch

MOST = 48
kept = []


def custom_kernel(data):
    while len(kept) < MOST:
        kept.append(torch.empty(16 << 20).fill_(1))
    print("GAINED", MOST * 64, "MiB", flush=True)
    return data[2]
