# id: T07 done_early_quiet
# expect: wrong_answer late_write protocol passed
# mode: benchmark
# check: no_gain
import os
import sys

import torch


def custom_kernel(data):
    answer = sys._getframe(1)
    control, nonce = answer.f_back.f_locals["control"], answer.f_locals["nonce"]
    left, right, out = data
    while nonce:  # takes over the loop: says DONE first, then computes, and never says it twice
        control.send(b"D" + nonce)
        torch.matmul(left, right, out=out)
        nonce = control.recv(64)[1:17]
    os._exit(0)
