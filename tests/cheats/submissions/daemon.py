# id: S18 daemon
# expect: passed
import os
import signal
import time

import torch

if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setpgid(0, 0)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("PID", os.getpid(), flush=True)
        time.sleep(300)
    os._exit(0)
os.wait()


def custom_kernel(data):
    left, right, out = data
    return torch.matmul(left, right, out=out)
