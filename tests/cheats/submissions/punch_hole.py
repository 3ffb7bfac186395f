# id: S20 truncate
# expect: wrong_answer late_write crashed protocol
# Seals do not forbid holes: the pages are gone, read as zeros, and belong to whoever asks next.
import ctypes
import os

import torch

libc = ctypes.CDLL(None, use_errno=True)
close, kept = os.close, set()
KEEP_SIZE, PUNCH_HOLE = 1, 2


def keep(descriptor):
    try:
        if os.readlink(f"/proc/self/fd/{descriptor}").startswith("/memfd:"):
            kept.add(os.dup(descriptor))
    except OSError:
        pass
    close(descriptor)


os.close = keep


def custom_kernel(data):
    left, right, out = data
    torch.matmul(left, right, out=out)
    for descriptor in kept:
        size = ctypes.c_long(os.fstat(descriptor).st_size)
        libc.fallocate(descriptor, KEEP_SIZE | PUNCH_HOLE, ctypes.c_long(0), size)
    return out
