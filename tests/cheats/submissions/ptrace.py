# id: S07 ptrace
# expect: passed
# level: weak
# prints: LOOKED
# never_prints: GAINED
# Even of its own child and of itself: where these calls are refused, they are refused for all.
import ctypes
import os
import platform
import signal
import time

import torch

libc = ctypes.CDLL(None, use_errno=True)
READV, WRITEV, KCMP, GETFD, MADVISE = 310, 311, 312, 438, 440
if platform.machine() == "aarch64":
    READV, WRITEV, KCMP = 270, 271, 272
child = os.fork()
if child == 0:
    time.sleep(60)
    os._exit(0)
text = ctypes.create_string_buffer(b"warpboard", 16)
piece = (ctypes.c_uint64 * 2)(ctypes.addressof(text), 8)
there = (ctypes.c_uint64 * 2)(ctypes.addressof(text), 8)
for pid in (child, os.getpid(), os.getppid(), 1):
    calls = {
        "attach": lambda: libc.ptrace(16, pid, 0, 0),
        "seize": lambda: libc.ptrace(0x4206, pid, 0, 0),
        "readv": lambda: libc.syscall(READV, pid, piece, 1, there, 1, 0),
        "writev": lambda: libc.syscall(WRITEV, pid, piece, 1, there, 1, 0),
        "kcmp": lambda: libc.syscall(KCMP, os.getpid(), pid, 0, 0, 0),
    }
    for name, call in calls.items():
        if call() >= 0:
            print("GAINED", name, pid, flush=True)
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        continue
    if libc.syscall(GETFD, handle, 1, 0) >= 0:
        print("GAINED pidfd_getfd", pid, flush=True)
    if libc.syscall(MADVISE, handle, there, 1, 21, 0) >= 0:
        print("GAINED process_madvise", pid, flush=True)
traced = os.fork()
if traced == 0:
    os._exit(77 if libc.ptrace(0, 0, 0, 0) == 0 else 0)
if os.waitstatus_to_exitcode(os.waitpid(traced, 0)[1]) == 77:
    print("GAINED traceme", flush=True)
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
print("LOOKED", flush=True)


def custom_kernel(data):
    left, right, out = data
    return torch.matmul(left, right, out=out)
