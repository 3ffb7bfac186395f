# id: S42 sleep_in_preparation
# expect: timed_out
# says: may be idle for 20 s together
# long: it may be idle for 20 s
import time

import torch

time.sleep(8)
SHAPES = set()


def custom_kernel(data):
    if data[0].shape not in SHAPES:
        SHAPES.add(data[0].shape)
        time.sleep(8)
    left, right, out = data
    return torch.mm(left, right, out=out)
