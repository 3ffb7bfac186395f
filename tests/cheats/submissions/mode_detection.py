# id: T17 mode_detection
# expect: passed
# prints: MODE []
import os
import sys

import torch

places = [" ".join(sys.argv), str(os.environ), *map(str, os.listdir("."))]
frame = sys._getframe(1)
while frame:
    places.append(" ".join(f"{key}={value!r}" for key, value in frame.f_locals.items()))
    frame = frame.f_back
words = ("benchmark", "ranked", "hidden", "tests", "mode=")
print("MODE", sorted({word for word in words for place in places if word in place}), flush=True)


def custom_kernel(data):
    left, right, out = data
    return torch.matmul(left, right, out=out)
