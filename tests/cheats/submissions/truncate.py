# id: S20 truncate
# expect: passed
# prints: TRIED
# never_prints: GAINED
# Keeps the descriptors of the shared memories, which the worker closes, and cuts them short.
import ctypes
import fcntl
import os
import socket
import sys
import time

import torch

libc = ctypes.CDLL(None, use_errno=True)
close, kept = os.close, set()
ADD_SEALS, WRITE, FUTURE_WRITE, SEAL, SHRINK = 1033, 8, 16, 1, 2
COLLAPSE, INSERT = 8, 32


def control():
    """The one SEQPACKET socket that this process was given."""
    for number in os.listdir("/proc/self/fd"):
        try:
            one = socket.socket(fileno=os.dup(int(number)))
        except OSError:
            continue
        if one.type == socket.SOCK_SEQPACKET:
            return one


def nonce():
    """What this call must be answered with, from the frames of the callers."""
    frame = sys._getframe(1)
    while frame:
        for value in frame.f_locals.values():
            if type(value) is bytes and len(value) >= 17 and value[:1] == b"G":
                return value[1:17]
        frame = frame.f_back


def keep(descriptor):
    try:
        if os.readlink(f"/proc/self/fd/{descriptor}").startswith("/memfd:"):
            kept.add(os.dup(descriptor))
    except OSError:
        pass
    close(descriptor)


os.close = keep


def attempt(name, act):
    try:
        act()
        print("GAINED", name, flush=True)
    except OSError:
        pass


def refuse(result):
    if result != 0:
        raise OSError


def attack(descriptor):
    size = os.fstat(descriptor).st_size
    attempt("grow", lambda: os.ftruncate(descriptor, size + (1 << 20)))
    for mode in (COLLAPSE, INSERT):
        attempt("fallocate", lambda: refuse(libc.fallocate(descriptor, mode, 0, ctypes.c_long(4096))))
    for seals in (WRITE, FUTURE_WRITE, SEAL, SHRINK):
        attempt("seal", lambda: fcntl.fcntl(descriptor, ADD_SEALS, seals))
    attempt("truncate", lambda: os.ftruncate(descriptor, 0))
    again = f"/proc/self/fd/{descriptor}"
    attempt("reopened", lambda: close(os.open(again, os.O_RDWR | os.O_TRUNC)))
    attempt("by name", lambda: os.truncate(again, 0))


def custom_kernel(data):
    left, right, out = data
    for descriptor in sorted(kept):
        attack(descriptor)
        print("TRIED", len(kept), flush=True)
    for span in os.listdir("/proc/self/map_files") if os.access("/proc/self/map_files", os.R_OK) else ():
        attempt("map file", lambda: os.truncate(f"/proc/self/map_files/{span}", 0))
    if any(os.fstat(descriptor).st_size == 0 for descriptor in kept):
        control().send(b"D" + nonce())  # who touches the memory now is killed for it
        time.sleep(60)
    return torch.matmul(left, right, out=out)

