# id: T07 done_early_quiet
# expect: wrong_answer late_write protocol passed
# mode: benchmark
# check: no_gain
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


send, said = socket.socket.send, set()
ours = control()


def quiet(self, message, *rest):
    """The worker's own word would be the second, and late."""
    return len(message) if bytes(message) in said else send(self, message, *rest)


socket.socket.send = quiet


def custom_kernel(data):
    left, right, out = data
    done = b"D" + nonce()
    said.add(done)
    send(ours, done)  # and only then the work
    return torch.matmul(left, right, out=out)
