# id: S44 flush_disk
# expect: passed
# level: weak
# prints: LOOKED
# never_prints: GAINED
# Makes the machine's disk write its cache out, again and again: what others write has to wait.
import ctypes
import glob
import mmap
import os
import platform
import sysconfig

import torch

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
X86 = platform.machine() == "x86_64"
SYNC_FILE_RANGE = 277 if X86 else 84
WAIT_BEFORE_WRITE_AND_AFTER, MS_SYNC, FAILED = 7, 4, 2**64 - 1
ROUNDS = 200
folders = [os.path.dirname(os.__file__), sysconfig.get_path("stdlib"), os.path.dirname(torch.__file__)]
paths = [path for folder in folders for path in glob.glob(f"{folder}/*.py")[:10]]
files = [os.open(path, os.O_RDONLY) for path in [*paths, *folders]]


def flushes():
    """How often all disks were flushed, as far as this process may know."""
    try:
        lines = open("/proc/diskstats").read().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[18]) for line in lines if len(line.split()) > 18)


def mapped(descriptor):
    # By hand: Python's own maps flush by a descriptor too.
    address = libc.mmap(None, 4096, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, ctypes.c_long(0))
    return None if address in (None, FAILED) else ctypes.c_void_p(address)


maps = [address for address in map(mapped, files) if address]
flushed_before = flushes()
for index in range(ROUNDS):
    descriptor = files[index % len(files)]
    for act in (
        lambda: os.fsync(descriptor),
        lambda: os.fdatasync(descriptor),
        lambda: libc.syncfs(descriptor),
        lambda: libc.syscall(SYNC_FILE_RANGE, descriptor, 0, 0, WAIT_BEFORE_WRITE_AND_AFTER),
        lambda: libc.msync(maps[index % len(maps)], ctypes.c_size_t(4096), MS_SYNC),
    ):
        try:
            act()
        except OSError:
            pass
flushed = flushes() - flushed_before
# Others flush too, but not as often as this file asks.
if flushed >= ROUNDS:
    print("GAINED", flushed, "flushes", flush=True)
# A file of its own can still be written out, as compilers and databases do.
with open("own", "w") as own:
    own.write("own")
    own.flush()
    os.fsync(own.fileno())
    os.fdatasync(own.fileno())
os.sync()
print("LOOKED", len(maps), flush=True)


def custom_kernel(data):
    left, right, out = data
    return torch.matmul(left, right, out=out)
