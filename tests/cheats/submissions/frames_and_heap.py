# id: C01 frames_and_heap
# expect: passed
# prints: FOUND [] [] 0
import gc
import sys

import torch

words = ("key", "seed", "problem", "reference", "snapshot", "poison", "expected")
frame, found = sys._getframe(), []
while frame:
    found += [name for name in frame.f_locals if name in words and frame is not sys._getframe()]
    frame = frame.f_back
modules = [name for name in sys.modules if name.startswith("harness.") and "worker" not in name]
tensors = sum(type(thing) is torch.Tensor and thing.numel() > 256 for thing in gc.get_objects())
print("FOUND", found, modules, tensors, flush=True)


def custom_kernel(data):
    left, right, out = data
    return torch.matmul(left, right, out=out)
