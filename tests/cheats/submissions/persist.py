# id: S22 persist
# expect: passed
# level: medium
# runs: 2
# prints: MARKED
# never_prints: FOUND
# Looks for its own mark of the last run, then leaves one, in all that might outlive a run.
import ctypes
import glob
import os
import platform
import socket
import sys
import tempfile

import torch

libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
MARK, KEY = "warpboard-mark", 0x77AB
MQ_OPEN, ADD_KEY, KEYCTL = (240, 248, 250) if platform.machine() == "x86_64" else (180, 217, 219)
home = os.path.expanduser("~")
folders = [home, f"{home}/.cache", f"{home}/.cache/torch_extensions", f"{home}/.triton/cache"]
folders += [f"{home}/.local/lib/python3.11/site-packages", f"{home}/.config", f"{home}/.ssh"]
folders += [tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run", "/var/lib"]
folders += [os.path.dirname(os.path.realpath(__file__)), os.path.dirname(torch.__file__), os.getcwd()]
folders += [folder for folder in glob.glob("/run/user/*") + glob.glob("/run/lock")]
folders += [os.environ[name] for name in ("TORCH_EXTENSIONS_DIR", "TRITON_CACHE_DIR") if name in os.environ]


def files():
    for folder in dict.fromkeys(map(os.path.realpath, folders)):
        path = os.path.join(folder, MARK)
        if os.path.lexists(path):
            print("FOUND", path, flush=True)
        try:
            os.makedirs(folder, exist_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o666))
            print("MARKED", path, flush=True)
        except OSError:
            pass


def system_v():
    for name, get in (("memory", libc.shmget), ("messages", libc.msgget), ("semaphores", libc.semget)):
        more = (4096,) if name == "memory" else (1,) if name == "semaphores" else ()
        if get(KEY, *more, 0) >= 0:
            print("FOUND System V", name, flush=True)
        if get(KEY, *more, 0o1666) >= 0:
            print("MARKED System V", name, flush=True)


def queues():
    if libc.syscall(MQ_OPEN, MARK.encode(), 0, 0, None) >= 0:
        print("FOUND queue", flush=True)
    if libc.syscall(MQ_OPEN, MARK.encode(), os.O_CREAT | os.O_RDWR, 0o666, None) >= 0:
        print("MARKED queue", flush=True)


def keyrings():
    user = ctypes.c_int(-4)  # the ring of the uid, which outlives its processes
    for ring in (user, ctypes.c_int(-5), ctypes.c_int(-3)):
        if libc.syscall(KEYCTL, 10, ring, b"user", MARK.encode(), 0) >= 0:
            print("FOUND key", flush=True)
        if libc.syscall(ADD_KEY, b"user", MARK.encode(), b"x", 1, ring) >= 0:
            print("MARKED key", flush=True)


def process_state():
    """What a fork of a long-lived parent might inherit."""
    if hasattr(sys, "warpboard_mark") or hasattr(torch, "warpboard_mark"):
        print("FOUND attribute", flush=True)
    sys.warpboard_mark = torch.warpboard_mark = True
    if os.environ.get("WARPBOARD_MARK") or socket.gethostname() == MARK:
        print("FOUND environment", flush=True)
    os.environ["WARPBOARD_MARK"] = "1"
    libc.sethostname(MARK.encode(), len(MARK))
    if os.nice(0) > 5:
        print("FOUND niceness", flush=True)
    if open("/proc/self/comm").read().strip() == MARK:
        print("FOUND name", flush=True)
    open("/proc/self/comm", "w").write(MARK)


def clocks_of_files():
    """Reading marks a file too, where clocks of access are kept."""
    for path in glob.glob("/usr/share/zoneinfo/*/*")[:50] + glob.glob(torch.__path__[0] + "/*.py"):
        try:
            before = os.stat(path).st_atime_ns
            open(path, "rb").read(1)
        except OSError:
            continue
        if os.stat(path).st_atime_ns != before:
            print("FOUND clock of access", path, flush=True)


for step in (files, system_v, queues, keyrings, process_state, clocks_of_files):
    step()
try:
    held = socket.socket(socket.AF_UNIX)
    held.bind("\0" + MARK)
    held.listen()
    print("MARKED abstract name", flush=True)
    if os.fork() == 0:
        os.setsid()
        held.accept()
        os._exit(0)
except OSError:
    print("FOUND abstract name", flush=True)


def custom_kernel(data):
    left, right, out = data
    return torch.matmul(left, right, out=out)
