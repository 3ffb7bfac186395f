# id: S23 environment
# expect: passed
# prints: ENVIRONMENT
import os

import torch

print("ENVIRONMENT", dict(os.environ), flush=True)
for pid in ("self", "1", str(os.getppid())):
    try:
        print(pid, open(f"/proc/{pid}/environ", "rb").read(), flush=True)
        print(pid, open(f"/proc/{pid}/cmdline", "rb").read(), flush=True)
    except OSError:
        pass


def custom_kernel(data):
    left, right, out = data
    return torch.matmul(left, right, out=out)
