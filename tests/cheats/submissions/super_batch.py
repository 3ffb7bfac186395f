# id: T10 super_batch
# expect: wrong_answer
import torch

kept = []


def custom_kernel(data):
    kept.append([data[0].clone(), data[1].clone(), data[2]])
    if len(kept) == 2:
        for left, right, out in kept:
            torch.matmul(left, right, out=out)
        kept.clear()
    return data[2]
