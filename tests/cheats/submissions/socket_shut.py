# id: S21 bad_messages
# expect: protocol crashed
# Both ends are shut while the process lives on.
import os
import socket
import time


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
    control().shutdown(socket.SHUT_RDWR)
    time.sleep(60)
