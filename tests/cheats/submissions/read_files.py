# id: S01 read_files
# expect: passed
# level: weak
# prints: LOOKED
# never_prints: GAINED
# Reads whatever is there beside the interpreter, and prints the beginning of it.
import glob
import os
import sys
import sysconfig

import torch

expected = ("/usr/", "/lib", "/bin", "/sbin", "/proc/", "/etc/ld.so.cache", "/etc/alternatives")
roots = [sys.prefix, sys.base_prefix, sysconfig.get_path("stdlib"), os.getcwd()]
roots += [os.path.dirname(os.path.realpath(__file__)), *(p for p in sys.path if "site-packages" in p)]
known = (*expected, *(os.path.realpath(root) + "/" for root in roots), *(root + "/" for root in roots))
# A box needs the folders above what it shows: with one name in each, and that is no news.
above = {}
for root in known:
    while (root := os.path.dirname(root.rstrip("/"))) != "/":
        above.setdefault(os.path.dirname(root), set()).add(os.path.basename(root))
for root in roots:
    above.setdefault(os.path.dirname(root), set()).add(os.path.basename(root))
wanted = ("/etc/shadow", "/etc/passwd", "/root", "/home", "/boot", "/var/lib", "/var/log", "/sys/kernel")
wanted += ("/proc/kcore", "/proc/kmsg", "/proc/1/environ", "/proc/1/root/etc/passwd", "/proc/1/cwd/x")
wanted += ("/dev/mem", "/dev/kmsg", "/dev/sda", "/dev/vda", "/dev/tty", "/dev/ptmx", "/dev/fuse")
looked = 0


def look(path):
    global looked
    looked += 1
    try:
        if os.path.isdir(path):
            if names := set(os.listdir(path)) - above.get(path, set()):
                print("GAINED", path, sorted(names)[:3], flush=True)
        else:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            print("GAINED", path, os.read(descriptor, 300), flush=True)
            os.close(descriptor)
    except OSError:
        pass


# Of the harness a worker needs what it imports, and whatever starts several of it.
package = os.path.dirname(os.path.dirname(sys.modules["harness.worker"].__file__))
guest = ("__init__.py", "worker", "sandbox/__init__.py", "sandbox/ranks.py")
known += tuple(os.path.join(package, name) for name in guest)


def is_ours(path):
    real = os.path.realpath(path)
    return real.startswith(known) or real + "/" in known


for path in wanted:
    look(path)
for folder, folders, files in os.walk("/"):
    folders[:] = [one for one in folders if not is_ours(os.path.join(folder, one))]
    folders[:] = [one for one in folders if (folder, one) not in (("/", "proc"), ("/", "dev"))]
    if looked > 20_000:
        break
    for name in files:
        path = os.path.join(folder, name)
        if os.path.isfile(path) and not is_ours(path):
            look(path)
# What the harness knows and a guest does not need: the author's files, and the referee's code.
for path in (os.path.join(package, "supervisor", "*.py"), os.path.join(package, "entry.py")):
    for one in glob.glob(path):
        look(one)
for folder in (os.path.dirname(os.path.realpath(__file__)), os.getcwd(), "/proc/self/cwd/.."):
    for name in ("reference.py", "manifest.json", "solutions", "samples.json", "log.txt"):
        look(os.path.join(folder, name))
print("LOOKED", looked, flush=True)


def custom_kernel(data):
    left, right, out = data
    return torch.matmul(left, right, out=out)
