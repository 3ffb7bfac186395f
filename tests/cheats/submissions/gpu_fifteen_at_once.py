# id: T10 gpu_fifteen_at_once
# expect: wrong_answer
# gpu: yes
# Fourteen calls only keep their inputs, and the fifteenth works for all of them, as if a timer
# averaged over a batch of calls and looked at the answers afterwards.
import torch

BATCH = 15
kept = []


def custom_kernel(data):
    left, right, out = data
    kept.append((left.clone(), right.clone(), out))
    if len(kept) == BATCH:
        for one, other, answer in kept:
            torch.matmul(one, other, out=answer)
        kept.clear()
    return out
