# id: S18 daemon
# expect: passed
# prints: DAEMON
# Two that start each other again, in sessions of their own, deaf to every signal but one.
import ctypes
import os
import signal
import time

import torch


def daemon(life):
    os.setsid()
    for number in range(1, signal.NSIG):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    ctypes.CDLL(None).prctl(15, b"kworker)0 R 1", 0, 0, 0)  # its name, for who parses /proc
    while True:
        if os.fork() == 0:
            os.setpgid(0, 0)
            if os.fork() == 0:
                time.sleep(life)
            os._exit(0)
        try:
            os.wait()
        except ChildProcessError:
            pass
        time.sleep(0.2)


if os.fork() == 0:
    if os.fork() == 0:
        print("DAEMON", os.getpid(), flush=True)
        daemon(300)
    os._exit(0)
if not signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
    os.wait()


def custom_kernel(data):
    left, right, out = data
    return torch.matmul(left, right, out=out)
