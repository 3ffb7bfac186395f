# id: S50 yardstick_sought
# expect: passed
# level: medium
# mode: benchmark
# long: a timed run takes some seconds
# prints: LOOKED
# never_prints: GAINED
# A timed run has a second box, with the yardstick. Looks for it in each call: its processes, its
# control group, its files, its sockets and its shared memory.
import os
import socket

import torch

NAMES = ("yardstick", "warpboard_reference", "reference.py", "reference_cpu.py")
FOLDERS = ("/submission", "/scratch", "/tmp", "/dev/shm", "/run", "/var/tmp")
calls = 0


def processes():
    """Processes that are not of this box, whose first one is number 1."""
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) not in (1, os.getpid()):
            yield f"process {name}"


def control_groups():
    """Groups beside this one."""
    for line in open("/proc/self/cgroup"):
        if ".." in line:
            yield f"group {line.strip()}"
    for folder, inner, _ in os.walk("/sys/fs/cgroup"):
        yield from (f"{folder}/{name}" for name in inner if "warpboard" in name)


def files():
    for top in FOLDERS:
        for folder, inner, names in os.walk(top):
            yield from (f"{folder}/{name}" for name in inner + names if name.startswith(NAMES))


def descriptors():
    """Open files that lead to the other box."""
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
        if any(word in target for word in NAMES):
            yield target


def sockets():
    """Sockets with a name, and anybody who listens where ranks meet."""
    with open("/proc/net/unix") as table:
        lines = [line.split() for line in table][1:]
        yield from (f"socket {words[7]}" for words in lines if len(words) > 7)
    with socket.socket() as caller:
        caller.settimeout(0.1)
        if not caller.connect_ex(("127.0.0.1", 29500)):
            yield "a listener"


def shared_memory():
    for kind in ("shm", "msg", "sem"):
        with open(f"/proc/sysvipc/{kind}") as table:
            yield from (f"{kind} {line.split()[1]}" for line in list(table)[1:])


def look():
    for way in (processes, control_groups, files, descriptors, sockets, shared_memory):
        try:
            for found in way():
                print("GAINED", found, flush=True)
        except OSError:
            pass
    print("LOOKED", flush=True)


def custom_kernel(data):
    global calls
    calls += 1
    # In the first calls, when the other box is made, and now and then beside it.
    if calls in (1, 2, 3, 8, 20, 50):
        look()
    left, right, out = data
    return torch.matmul(left, right, out=out)
