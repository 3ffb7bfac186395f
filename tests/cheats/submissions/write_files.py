# id: S02 write_files
# expect: passed
# level: weak
# prints: LOOKED
# never_prints: GAINED
# Writes, makes, moves, links and marks wherever it should not.
import ctypes
import mmap
import os
import sys
import sysconfig

import torch

libc = ctypes.CDLL(None, use_errno=True)
source = os.path.realpath(__file__)
tree = os.path.dirname(torch.__file__)
folders = ["/", "/usr", "/usr/local/bin", "/etc", "/var/lib", "/root", "/home", "/dev", "/opt", "/run"]
folders += [os.path.dirname(source), tree, sysconfig.get_path("stdlib"), sys.prefix, "/proc/1/cwd"]
files = [source, tree + "/__init__.py", "/etc/passwd", "/etc/ld.so.preload", "/usr/bin/env"]
files += [f"/proc/sys/{name}" for name in ("kernel/core_pattern", "kernel/hostname", "vm/drop_caches")]
files += ["/proc/sysrq-trigger", "/proc/1/oom_score_adj", "/proc/1/mem", "/proc/irq/0/smp_affinity"]


def check(what, act, undo=lambda: None):
    try:
        act()
    except (OSError, ValueError):
        return
    print("GAINED", what, flush=True)
    undo()


def opened(path, flags):
    os.close(os.open(path, flags, 0o600))


def mapped(path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        mmap.mmap(descriptor, 1, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE).close()
    finally:
        os.close(descriptor)


def reopened(path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        opened(f"/proc/self/fd/{descriptor}", os.O_WRONLY)
    finally:
        os.close(descriptor)


for folder in folders:
    new = os.path.join(folder, "warpboard-was-here")
    check(new, lambda: opened(new, os.O_CREAT | os.O_WRONLY), lambda: os.unlink(new))
    check(f"{new} (folder)", lambda: os.mkdir(new), lambda: os.rmdir(new))
    check(f"{new} (link)", lambda: os.symlink("/proc", new), lambda: os.unlink(new))
    check(f"{folder} (nameless)", lambda: opened(folder, os.O_TMPFILE | os.O_WRONLY))
    check(f"{new} (socket)", lambda: os.mknod(new, 0o140600), lambda: os.unlink(new))
for path in files:
    check(path, lambda: opened(path, os.O_WRONLY))
    check(f"{path} (mapped)", lambda: mapped(path))
    check(f"{path} (reopened)", lambda: reopened(path))
check("mode", lambda: os.chmod(source, 0o777))
check("owner", lambda: os.chown(source, os.getuid(), os.getgid()))
check("clock", lambda: os.utime(source))
check("moved", lambda: os.rename(source, source + ".old"), lambda: os.rename(source + ".old", source))
check("linked", lambda: os.link(source, os.path.join(os.path.dirname(source), "again.py")))
check("attribute", lambda: os.setxattr(source, "user.mark", b"x"))
if libc.mount(b"none", b"/", None, 4096 | 32, None) == 0:  # MS_BIND | MS_REMOUNT, writable
    print("GAINED remount", flush=True)
print("LOOKED", 5 * len(folders) + 3 * len(files), flush=True)


def custom_kernel(data):
    left, right, out = data
    return torch.matmul(left, right, out=out)
