# id: T24 impossible_time
# expect: suspicious
# mode: benchmark
# floor_us: 60000000
# says: below the floor
# As fast as a product of this size can be had, in a problem that says it takes a minute.
import torch


def custom_kernel(data):
    left, right, out = data
    return torch.matmul(left, right, out=out)
