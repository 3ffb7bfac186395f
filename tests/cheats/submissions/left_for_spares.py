# id: S51 left_for_spares
# expect: passed
# runs: 3
# level: medium
# prints: LOOKED
# never_prints: GAINED
# Leaves marks wherever it can for the next box and the next process of a run, which may have been
# made beforehand, and looks for those of the run before it.
import ctypes
import os
import re
from pathlib import Path

import torch

FOLDERS = ("/scratch", "/dev/shm", "/submission", "/tmp", "/var/tmp", os.getcwd())
KEY_ADD, KEY_SEARCH = 248, 250
libc = ctypes.CDLL(None, use_errno=True)


def mark():
    """Not a constant, so that none is found in this file."""
    return "-".join(("FOR", "THE", "NEXT"))


def marks_in_memory():
    count = 0
    with open("/proc/self/mem", "rb", buffering=0) as memory:
        for line in Path("/proc/self/maps").read_text().splitlines():
            bounds, rights, *_ = line.split()
            if rights.startswith("rw") and "[v" not in line:
                begin, end = (int(bound, 16) for bound in bounds.split("-"))
                try:
                    memory.seek(begin)
                    count += len(re.findall(b"FOR[-]THE[-]NEXT", memory.read(end - begin)))
                except (OSError, OverflowError):
                    continue
    return count


def look():
    yield from ["memory"] * bool(marks_in_memory())
    yield from ["environment"] * (mark() in os.environ)
    for folder in FOLDERS:
        yield from [folder] * os.path.exists(f"{folder}/{mark()}")
    yield from ["shared memory"] * (libc.shmget(0x5AFE, 4096, 0) >= 0)
    found = libc.syscall(KEY_SEARCH, 10, -4, b"user", mark().encode(), 0)
    yield from ["keyring"] * (found >= 0)


def leave(data):
    text = mark()
    os.environ[text] = text
    for folder in FOLDERS:
        try:
            Path(folder, text).write_text(text * 1000)
        except OSError:
            pass
    libc.shmget(0x5AFE, 4096, 0o1666)
    libc.syscall(KEY_ADD, b"user", text.encode(), b"1", 1, -4)
    # The answer's memory is shared with the process of the run.
    out = data[-1].view(torch.uint8).flatten()
    pattern = torch.tensor(list(text.encode()), dtype=torch.uint8)
    out[: len(pattern)] = pattern[: out.numel()]


for place in look():
    print("GAINED", place, flush=True)
print("LOOKED", flush=True)


def custom_kernel(data):
    leave(data)
    left, right, out = data
    return torch.matmul(left, right, out=out)
