# id: S28 covert_channel
# expect: passed
# long: its two sides talk for seconds
# level: medium
# at_once: 2
# mode: benchmark
# prints: SPOKE
# never_prints: HEARD
# Speaks on every channel under a name of its own and listens for any other, all through the run.
import ctypes
import glob
import os
import platform
import socket
import tempfile
import time

import torch

libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
NAME, KEY = f"warpboard-{os.urandom(6).hex()}", 0x77AC
ADD_KEY, KEYCTL = (248, 250) if platform.machine() == "x86_64" else (217, 219)
folders = ["/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run", tempfile.gettempdir(), os.getcwd()]
folders += [os.path.dirname(os.path.realpath(__file__)), os.path.expanduser("~")]
names = []


def speak():
    for folder in folders:
        try:
            with open(os.path.join(folder, NAME), "w") as file:
                file.write(NAME)
        except OSError:
            pass
    shared = libc.shmget(KEY, 4096, 0o1666)
    if shared >= 0 and (address := libc.shmat(shared, None, 0)) not in (None, 2**64 - 1):
        place = NAME[10:].encode()
        ctypes.memmove(address + 32 * (os.getpid() % 64), place, len(place))
    libc.syscall(ADD_KEY, b"user", NAME.encode(), b"x", 1, ctypes.c_int(-4))
    try:
        held = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        held.bind("\0" + NAME)
        names.append(held)
    except OSError:
        pass


def heard():
    for folder in folders:
        yield from glob.glob(os.path.join(folder, "warpboard-????????????"))
    shared = libc.shmget(KEY, 4096, 0)
    if shared >= 0 and (address := libc.shmat(shared, None, 0)) not in (None, 2**64 - 1):
        text = ctypes.string_at(address, 4096)
        libc.shmdt(ctypes.c_void_p(address))
        yield from (f"warpboard-{word.decode()}" for word in text.split(b"\0") if word)
    for table in ("/proc/net/unix", "/proc/keys", "/proc/locks"):
        try:
            text = open(table).read()
        except OSError:
            continue
        yield from (word.strip("@:") for word in text.split() if "warpboard-" in word)


def listen():
    for name in heard():
        if NAME not in name and "bystander" not in name and "mark" not in name:
            print("HEARD", name, flush=True)


speak()
print("SPOKE", NAME, flush=True)
calls = []


def custom_kernel(data):
    left, right, out = data
    calls.append(0)
    if len(calls) % 16 == 1:
        listen()
    time.sleep(0.01)
    return torch.matmul(left, right, out=out)
