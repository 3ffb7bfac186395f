# id: T06 done_early
# expect: wrong_answer late_write protocol
import sys
import time

import torch


def custom_kernel(data):
    answer = sys._getframe(1)
    control = answer.f_back.f_locals["control"]
    control.send(b"D" + answer.f_locals["nonce"])
    time.sleep(0.003)
    left, right, out = data
    return torch.matmul(left, right, out=out)
