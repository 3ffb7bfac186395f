# id: S49 watch_folders
# expect: passed
# level: weak
# prints: LOOKED
# never_prints: GAINED
# Asks the kernel to be told when anybody opens, reads or changes a file of the machine.
import ctypes
import fcntl
import os
import platform
import signal

import torch

libc = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == "x86_64"
INOTIFY_INIT1, INOTIFY_ADD_WATCH = (294, 254) if X86 else (26, 27)
INOTIFY_INIT, FANOTIFY_INIT = 253, (300 if X86 else 262)
ALL_EVENTS, DN_ACCESS, F_SETSIG, F_NOTIFY = 0xFFF, 1, 10, 1026
folders = ["/usr/bin", "/usr/lib", os.path.dirname(os.__file__), os.path.dirname(torch.__file__)]

watches = [libc.syscall(INOTIFY_INIT1, 0)]
if X86:
    watches.append(libc.syscall(INOTIFY_INIT))
for watch in watches:
    if watch >= 0:
        print("GAINED inotify", flush=True)
    for folder in folders:
        if libc.syscall(INOTIFY_ADD_WATCH, watch, folder.encode(), ALL_EVENTS) >= 0:
            print("GAINED a watch of", folder, flush=True)
for kind in (0, 0x200, 0x600):  # by descriptor, by file identifier, with names
    if libc.syscall(FANOTIFY_INIT, kind, os.O_RDONLY) >= 0:
        print("GAINED fanotify", kind, flush=True)
signal.signal(signal.SIGUSR2, signal.SIG_IGN)
for folder in folders:
    descriptor = os.open(folder, os.O_RDONLY)
    for name, command, value in (
        ("notice of", F_NOTIFY, DN_ACCESS),
        ("a lease on", fcntl.F_SETLEASE, fcntl.F_RDLCK),
    ):
        try:
            fcntl.fcntl(descriptor, F_SETSIG, signal.SIGUSR2)
            fcntl.fcntl(descriptor, command, value)
            print("GAINED", name, folder, flush=True)
        except OSError:
            pass
    os.close(descriptor)
# A lease makes others wait who open the file for writing.
for path in (os.__file__, torch.__file__, __file__):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        print("GAINED a lease on", path, flush=True)
    except OSError:
        pass
    os.close(descriptor)
print("LOOKED", len(folders), flush=True)


def custom_kernel(data):
    left, right, out = data
    return torch.matmul(left, right, out=out)
