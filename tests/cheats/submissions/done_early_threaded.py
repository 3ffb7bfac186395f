# id: T07 done_early_quiet
# expect: wrong_answer late_write protocol passed
# mode: benchmark
# check: no_gain
# A thread answers at once while another core computes: the least that a handshake can hide.
import os
import socket
import sys
import threading

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


begun = threading.Semaphore(0)


def answer_at_once(ours, known):
    while known:
        begun.release()
        ours.send(b"D" + known)
        known = ours.recv(64)[1:17]
    os._exit(0)


def custom_kernel(data):
    left, right, out = data
    threading.Thread(target=answer_at_once, args=(control(), nonce()), daemon=True).start()
    while True:
        begun.acquire()
        torch.matmul(left, right, out=out)
