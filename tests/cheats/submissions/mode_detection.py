# id: T17 mode_detection
# expect: passed
# prints: MODE []
# Whatever may tell a test from a ranked run: arguments, environment, frames, files, names.
import os
import sys

import torch

here = os.path.dirname(os.path.realpath(__file__))
places = [" ".join(sys.argv), str(os.environ), *map(str, os.listdir(".")), *map(str, os.listdir(here))]
for name in ("cmdline", "environ", "cgroup", "comm", "maps"):
    places.append(open(f"/proc/self/{name}", "rb").read().decode(errors="replace"))
for folder, _, files in os.walk(here):
    for path in (os.path.join(folder, name) for name in files):
        if os.path.realpath(path) != os.path.realpath(__file__):
            places.append(open(path, "rb").read().decode(errors="replace"))
frame = sys._getframe(1)
while frame:
    places.append(" ".join(f"{key}={value!r}" for key, value in frame.f_locals.items()))
    frame = frame.f_back
words = ("benchmark", "ranked", "hidden", "mode=", "warm_up", "run_key")
print("MODE", sorted({word for word in words for place in places if word in place}), flush=True)


def custom_kernel(data):
    left, right, out = data
    return torch.matmul(left, right, out=out)
