# id: S37 page_tables_of_many
# expect: timed_out out_of_memory crashed
# long: it takes as long as the sandbox waits for a process to stop
# Many processes with large page tables, all of which end at once. Where the first call survives them,
# the next one meets the limit of processes.
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
MOST, PROCESSES = 8 << 30, 40
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
        time.sleep(60)


def custom_kernel(data):
    for _ in range(PROCESSES):
        if os.fork() == 0:
            populate()
    time.sleep(3)
    return data[2]
