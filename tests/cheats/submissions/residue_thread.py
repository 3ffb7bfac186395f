# id: T33 residue_thread
# expect: passed
# mode: benchmark
# check: no_residue
# Threads that never rest would be beside the yardstick if they ran on while that is measured.
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
