# id: S33 gpu_ioctl_surface
# expect: passed crashed timed_out protocol
# gpu: yes
# prints: ASKED
# Random words to the driver's nodes for two seconds; the host has to be well afterwards.
import fcntl
import glob
import os
import random
import time

import torch

torch.zeros(1, device="cuda")
print("ASKED", flush=True)
until = time.monotonic() + 2
nodes = [os.open(path, os.O_RDWR) for path in glob.glob("/dev/nvidia*") if os.access(path, os.W_OK)]
while nodes and time.monotonic() < until:
    try:
        fcntl.ioctl(random.choice(nodes), random.getrandbits(32), bytearray(random.randbytes(256)))
    except (OSError, ValueError):
        pass


def custom_kernel(data):
    left, right, out = data
    return torch.matmul(left, right, out=out)
