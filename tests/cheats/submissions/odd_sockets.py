# id: S04 odd_sockets
# expect: passed
# level: weak
# prints: LOOKED
# never_prints: GAINED
# Every family but AF_UNIX, and the two other doors into the kernel: i386 and x32.
import ctypes
import mmap
import os
import platform
import socket
import struct

import torch

libc = ctypes.CDLL(None, use_errno=True)
kinds = (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET)
for family in range(2, 46):
    for kind in kinds:
        for protocol in (0, 1, 3):
            if libc.socket(family, kind, protocol) >= 0:
                print("GAINED family", family, int(kind), protocol, flush=True)
        pair = (ctypes.c_int * 2)()
        if libc.socketpair(family, kind, 0, pair) == 0:
            print("GAINED pair", family, int(kind), flush=True)
for context in (2, 1):  # the host, and ourselves
    try:
        socket.socket(40, socket.SOCK_STREAM).connect((context, 22))
        print("GAINED vsock", context, flush=True)
    except OSError:
        pass


def native(code):
    """Machine code, called in a child that may well be killed for it."""
    memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    pid = os.fork()
    if pid == 0:
        result = ctypes.CFUNCTYPE(ctypes.c_int)(address)()
        os._exit(77 if result >= 0 else 0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if platform.machine() == "x86_64":
    for family in (2, 16, 40):
        arguments = struct.pack("<BIBIBI", 0xBB, family, 0xB9, 2, 0xBA, 0)  # ebx ecx edx
        i386 = b"\x53\xb8" + struct.pack("<I", 359) + arguments + b"\xcd\x80\x5b\xc3"
        if native(i386) == 77:
            print("GAINED i386", family, flush=True)
        if libc.syscall(0x40000000 + 41, family, 2, 0) >= 0:
            print("GAINED x32", family, flush=True)
print("LOOKED", flush=True)


def custom_kernel(data):
    left, right, out = data
    return torch.matmul(left, right, out=out)
