# id: T21 checker_window
# expect: wrong_answer late_write
# A child writes the answer, and takes it away again, for as long as anybody might be reading.
import os
import time

import torch


def custom_kernel(data):
    left, right, out = data
    if os.fork() == 0:
        until = time.monotonic() + 0.1
        answer = left @ right
        while time.monotonic() < until:
            out.copy_(answer)
            out.zero_()
        out.copy_(answer)
        os._exit(0)
    return out
