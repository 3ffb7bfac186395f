# id: T08 dones_queued
# expect: protocol
# Answers each call twice: the second word is for the next call, which it has not seen.
import os
import socket
import sys

import torch


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


ours = control()


def custom_kernel(data):
    left, right, out = data
    torch.matmul(left, right, out=out)
    ours.send(b"D" + nonce())
    return out
