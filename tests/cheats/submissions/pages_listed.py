# id: S38 pages_listed
# expect: wrong_answer timed_out
# never_prints: GAINED
# One call that asks of all pages whether they are in memory: no signal ends it. All answers go to
# one small memory, mapped again and again.
import ctypes
import os
import threading
import time

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
LIBC.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
PRIVATE_ANONYMOUS_NORESERVE, SHARED_FIXED = 0x4022, 0x11
PIECE, PIECES = 32 << 20, 512
BYTES = PIECE * PIECES * 4096
FAILED = 2**64 - 1


def ask(address, size, answers):
    if LIBC.mincore(address, size, answers) == 0:
        print("GAINED", flush=True)


def custom_kernel(data):
    memory = os.memfd_create("answers")
    os.ftruncate(memory, PIECE)
    pieces, size = PIECES, BYTES
    while (address := LIBC.mmap(None, size, 0, PRIVATE_ANONYMOUS_NORESERVE, -1, 0)) == FAILED:
        pieces, size = pieces // 2 or 1, size // 2
    answers = LIBC.mmap(None, PIECE * pieces, 0, PRIVATE_ANONYMOUS_NORESERVE, -1, 0)
    for index in range(pieces):
        LIBC.mmap(answers + index * PIECE, PIECE, 3, SHARED_FIXED, memory, 0)
    for _ in range(20):
        threading.Thread(target=ask, args=(address, size, answers), daemon=True).start()
    time.sleep(0.2)
    return data[2]
