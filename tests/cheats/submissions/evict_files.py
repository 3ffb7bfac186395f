# id: S45 evict_files
# expect: passed
# level: weak
# prints: LOOKED
# never_prints: GAINED
# Throws files of the machine out of memory, and asks what is there: a slate that others can read.
import ctypes
import glob
import os
import platform
import struct
import sysconfig

import torch

libc = ctypes.CDLL(None, use_errno=True)
CACHESTAT = 451
folder = sysconfig.get_path("stdlib")
paths = filter(os.path.isfile, glob.iglob(f"{folder}/**/*.py", recursive=True))
paths = sorted(paths, key=os.path.getsize)[-50:]


def read_from_disk():
    """How many bytes this process has read from disks."""
    try:
        lines = open("/proc/self/io").read().splitlines()
    except OSError:
        return 0
    return next(int(line.split()[1]) for line in lines if line.startswith("read_bytes"))


def read(path):
    with open(path, "rb") as file:
        file.read()


evicted = 0
for path in paths:
    read(path)
    descriptor = os.open(path, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    before = read_from_disk()
    read(path)
    evicted += read_from_disk() - before
    answer = ctypes.create_string_buffer(40)
    whole = struct.pack("QQ", 0, os.path.getsize(path))
    if libc.syscall(CACHESTAT, descriptor, whole, answer, 0) == 0:
        print("GAINED what is in memory of", path, flush=True)
    os.close(descriptor)
if evicted:
    print("GAINED", evicted, "bytes thrown out", flush=True)
print("LOOKED", len(paths), flush=True)


def custom_kernel(data):
    left, right, out = data
    return torch.matmul(left, right, out=out)
