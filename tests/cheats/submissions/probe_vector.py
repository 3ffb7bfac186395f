# id: T31 probe_vector
# expect: passed
# mode: benchmark
# probe_ratio_max: 1.03
# Ends every call with wide vector instructions, after which some processors are slower for a while.
import torch

square, product = torch.rand(512, 512), torch.empty(512, 512)


def custom_kernel(data):
    left, right, out = data
    torch.matmul(left, right, out=out)
    for _ in range(4):
        torch.mm(square, square, out=product)
    return out
