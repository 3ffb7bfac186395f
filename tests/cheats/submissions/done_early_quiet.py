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


def custom_kernel(data):
    left, right, out = data
    ours, answer = control(), nonce()
    while answer:  # takes over the loop: says DONE first, then computes, and never says it twice
        ours.send(b"D" + answer)
        torch.matmul(left, right, out=out)
        answer = ours.recv(64)[1:17]
    os._exit(0)
