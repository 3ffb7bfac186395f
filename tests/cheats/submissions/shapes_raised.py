# id: M06 shapes_raised
# expect: crashed
# mode: ranked
# hidden: 3
# never_says: SIZE
# never_prints: SIZE
# Raises an error with the size as soon as it is given a hidden one.
import torch


def custom_kernel(data):
    left, right, out = data
    if left.shape[0] not in (32, 64, 256):
        raise ValueError(f"SIZE {left.shape[0]}")
    return torch.matmul(left, right, out=out)
