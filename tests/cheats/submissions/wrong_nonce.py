# id: S21 bad_messages
# expect: protocol
import os
import socket

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


def custom_kernel(data):
    left, right, out = data
    torch.matmul(left, right, out=out)
    control().send(b"D" + os.urandom(16))
    return out
