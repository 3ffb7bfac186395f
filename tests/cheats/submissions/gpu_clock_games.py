# id: T22 gpu_clock_games
# expect: passed protocol suspicious
# fails: noisy
# gpu: yes
# mode: benchmark
# check: no_gain
# A thread loads the device whenever it is let, so that clocks and heat are not what they were.
import threading

import torch

big = torch.randn(4096, 4096, device="cuda")
side = torch.cuda.Stream()


def load():
    while True:
        with torch.cuda.stream(side):
            torch.mm(big, big)
        side.synchronize()


threading.Thread(target=load, daemon=True).start()


def custom_kernel(data):
    left, right, out = data
    return torch.matmul(left, right, out=out)
