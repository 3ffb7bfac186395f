# id: S21 bad_messages
# expect: protocol
import os
import sys

import torch


def custom_kernel(data):
    left, right, out = data
    torch.matmul(left, right, out=out)
    sys._getframe(2).f_locals["control"].send(b"D" + os.urandom(16))
    return out
