# id: S11 memory_bomb
# expect: out_of_memory
# says: can't allocate memory
import torch

kept = []


def custom_kernel(data):
    while True:
        kept.append(torch.empty(16 << 20))
