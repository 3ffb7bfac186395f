# id: T20 gpu_l2_prefetch
# expect: passed protocol
# gpu: yes
# mode: benchmark
# check: no_gain
# A second stream reads the inputs over and over, so that they are in the cache when it counts.
import torch

side = torch.cuda.Stream()


def custom_kernel(data):
    left, right, out = data
    with torch.cuda.stream(side):
        for _ in range(20):
            left.sum()
            right.sum()
    return torch.matmul(left, right, out=out)
