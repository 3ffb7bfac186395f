# id: S06 proc_of_everyone
# expect: passed
# level: weak
# prints: LOOKED
# never_prints: GAINED
# Reads and opens what /proc tells of every other process.
import os

import torch

mine, looked = {os.getpid()}, 0
reads = ("environ", "maps", "auxv", "stack", "io", "syscall", "pagemap")
links = ("cwd", "root", "exe")
try:
    near = {int(name) for name in os.listdir("/proc") if name.isdigit()}
except OSError:  # a folder that may not be listed may still be passed
    near = set(range(max(1, os.getpid() - 2000), os.getpid() + 10))
pids = sorted(near | {1, os.getppid()})
for pid in pids:
    if pid in mine:
        continue
    for name in reads:
        looked += 1
        try:
            if text := open(f"/proc/{pid}/{name}", "rb").read(4096):
                print("GAINED", pid, name, text[:2000], flush=True)
        except OSError:
            pass
    try:
        open(f"/proc/{pid}/mem", "rb+").close()
        print("GAINED", pid, "mem", flush=True)
    except OSError:
        pass
    for name in links:
        try:
            print("GAINED", pid, name, os.readlink(f"/proc/{pid}/{name}"), flush=True)
        except OSError:
            pass
    for folder in ("fd", "map_files", "ns"):
        try:
            for name in os.listdir(f"/proc/{pid}/{folder}"):
                os.stat(f"/proc/{pid}/{folder}/{name}")
                print("GAINED", pid, folder, name, flush=True)
        except OSError:
            pass
print("LOOKED", looked, "PROCESSES", len(pids), flush=True)


def custom_kernel(data):
    left, right, out = data
    return torch.matmul(left, right, out=out)
