# id: S21 bad_messages
# expect: passed protocol
# prints: SENT
# Descriptors ride on every answer: files, pipes, and sockets that hold one another in flight.
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
    torch.matmul(left, right, out=out)
    many = [*os.pipe(), *os.pipe(), os.open("/dev/zero", os.O_RDWR)] * 40
    first, second = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    for _ in range(3):
        socket.send_fds(first, [b"x"], [second.fileno()])
    ours, answer = control(), nonce()
    while answer:
        socket.send_fds(ours, [b"D" + answer], [*many, first.fileno(), second.fileno()])
        print("SENT", flush=True)
        answer = ours.recv(64)[1:17]
        torch.matmul(left, right, out=out)
    os._exit(0)
