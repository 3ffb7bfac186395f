# id: S23 environment
# expect: passed
# prints: ENVIRONMENT
import os

import torch

print("ENVIRONMENT", dict(os.environ), flush=True)


def custom_kernel(data):
    left, right, out = data
    return torch.matmul(left, right, out=out)
