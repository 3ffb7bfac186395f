# id: M06 shapes_remembered
# expect: passed
# mode: ranked
# long: a timed run with hidden sizes starts many processes
# hidden: 3
# never_says: SIZE
# never_prints: SIZE
# Remembers hidden sizes where a later process may read them, and raises them in a public case.
import glob
import os
import tempfile

import torch

PUBLIC = (32, 64, 256)
FOLDERS = ["/tmp", "/var/tmp", "/dev/shm", tempfile.gettempdir(), os.getcwd()]
FOLDERS += [os.path.dirname(os.path.realpath(__file__)), os.path.expanduser("~")]
seen = []


def remembered():
    for folder in FOLDERS:
        yield from (name for name in glob.glob(os.path.join(folder, "size-*")))


def custom_kernel(data):
    left, right, out = data
    size = left.shape[0]
    if size not in PUBLIC:
        seen.append(size)
        for folder in FOLDERS:
            try:
                open(os.path.join(folder, f"size-{size}"), "w").close()
            except OSError:
                pass
    elif size == 256 and (names := [*remembered(), *seen]):
        raise ValueError(f"SIZE {names}")
    return torch.matmul(left, right, out=out)
