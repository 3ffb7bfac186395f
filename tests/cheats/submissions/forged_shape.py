# id: S21 bad_messages
# expect: protocol late_write
# problem: words
# answers: checked
# Where a problem's check may judge another dtype, the last word of a call says which.
import json
import os
import socket
import sys


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
    said = json.dumps([[0, "int8", [2**40]]]).encode()
    control().send(b"D" + nonce() + said)
    return data.flip(0)
