# id: C17 racy
# expect: wrong_answer
# mode: benchmark
# Right nine times in ten, beginning anywhere.
import os

import torch

calls = [0] * (os.urandom(1)[0] % 10)


def custom_kernel(data):
    left, right, out = data
    calls.append(0)
    torch.matmul(left, right, out=out)
    if len(calls) % 10 == 0:
        out[: len(out) // 2].mul_(1.01)
    return out
