# id: S34 populate_forever
# expect: timed_out
# level: strong
# long: it takes as long as the sandbox waits for a process to stop
# System calls that fill page tables for seconds each: only a signal that kills ends them.
import ctypes
import os
import time

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
LIBC.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
PROT_READ, PRIVATE_ANONYMOUS_NORESERVE = 1, 0x4022
MADV_DONTNEED, MADV_NOHUGEPAGE, MADV_POPULATE_READ = 4, 15, 22
# The most that one process may map, and what its tables may take beside those of others.
MOST, PROCESSES = 400 << 30, 12
FAILED = 2**64 - 1


def taken(size):
    return LIBC.mmap(None, size, PROT_READ, PRIVATE_ANONYMOUS_NORESERVE, -1, 0)


def largest():
    size = MOST
    while (address := taken(size)) == FAILED:
        size -= 1 << 30
    LIBC.madvise(address, size, MADV_NOHUGEPAGE)
    return address, size


def populate():
    address, size = largest()
    while True:
        LIBC.madvise(address, size, MADV_POPULATE_READ)
        LIBC.madvise(address, size, MADV_DONTNEED)


def custom_kernel(data):
    for _ in range(PROCESSES):
        if os.fork() == 0:
            populate()
    time.sleep(0.5)
    return data[2]
