# id: T08 dones_queued
# expect: protocol
import os
import socket


def control():
    """The one SEQPACKET socket that this process was given."""
    for number in os.listdir("/proc/self/fd"):
        try:
            one = socket.socket(fileno=os.dup(int(number)))
        except OSError:
            continue
        if one.type == socket.SOCK_SEQPACKET:
            return one


for _ in range(50):
    control().send(b"D" + bytes(16))


def custom_kernel(data):
    return data[2]
