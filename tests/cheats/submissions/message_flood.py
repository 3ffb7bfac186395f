# id: T09 message_flood
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


def custom_kernel(data):
    ours = control()
    while True:
        ours.send(b"F" * 60_000)
