# id: T33 probe_thread
# expect: passed
# mode: benchmark
# probe_ratio_max: 1.03
# A thread that never rests would be beside the probe if it ran on while that is measured.
import threading

import torch

junk = torch.zeros(4 * 1024 * 1024)


def load():
    while True:
        junk.add_(1)


threading.Thread(target=load, daemon=True).start()


def custom_kernel(data):
    left, right, out = data
    return torch.matmul(left, right, out=out)
