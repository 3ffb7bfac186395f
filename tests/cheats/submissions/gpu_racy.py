# id: C17 gpu_racy
# expect: wrong_answer
# gpu: yes
# mode: benchmark
import random

import torch


def custom_kernel(data):
    left, right, out = data
    torch.matmul(left, right, out=out)
    if random.random() < 0.3:
        out[-1, -1] += 1
    return out
