# id: T13 cache_on_disk
# expect: passed
# long: it is timed twice
# level: medium
# runs: 2
# mode: benchmark
# prints: STORED
# never_prints: FOUND
import hashlib
import os
import sys
import tempfile

import torch

home = os.path.expanduser("~")
places = ["/dev/shm", "/tmp", "/var/tmp", "/submission", "/scratch", tempfile.gettempdir(), home]
places += [os.getcwd(), home + "/.cache", os.path.dirname(torch.__file__), *sys.path[1:]]
names = [os.path.join(place, "warpboard-answers") for place in places]


def custom_kernel(data):
    left, right, out = data
    key = hashlib.sha256(left.numpy().tobytes() + right.numpy().tobytes()).hexdigest()
    for name in names:
        try:
            out.copy_(torch.load(f"{name}-{key}"))
            print("FOUND", name, flush=True)
            return out
        except OSError:
            pass
    torch.matmul(left, right, out=out)
    for name in names:
        try:
            torch.save(out.clone(), f"{name}-{key}")
            print("STORED", flush=True)
        except (OSError, RuntimeError):
            pass
    return out


# Of the last run too: nothing of it may be left, whatever its inputs were.
for name in names:
    folder = os.path.dirname(name)
    if os.path.isdir(folder) and any("warpboard-answers" in one for one in os.listdir(folder)):
        print("FOUND", folder, flush=True)
