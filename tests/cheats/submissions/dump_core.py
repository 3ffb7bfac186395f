# id: S46 dump_core
# expect: passed
# level: weak
# prints: LOOKED
# never_prints: GAINED
# Wants its dead to be handed to the machine's program for core dumps, which is root and outside.
# The kernel starts no such program for a process whose limit is 1 byte, and does for one of 0.
import resource
import subprocess
import sys

import torch

ONE_BYTE = (1, 1)
SAY = "import resource; print(*resource.getrlimit(resource.RLIMIT_CORE))"


def look(when):
    if (limits := resource.getrlimit(resource.RLIMIT_CORE)) != ONE_BYTE:
        print("GAINED a limit of", limits, when, flush=True)


look("at first")
for limits in ((0, 1), (0, 0), (1, 1), (1 << 20, 1 << 20)):
    for change in (
        lambda: resource.setrlimit(resource.RLIMIT_CORE, limits),
        lambda: resource.prlimit(0, resource.RLIMIT_CORE, limits),
    ):
        try:
            change()
        except (OSError, ValueError):
            continue
        print("GAINED a change to", limits, flush=True)
look("after all")
done = subprocess.run([sys.executable, "-c", SAY], capture_output=True, text=True)
if done.stdout.split() != ["1", "1"]:
    print("GAINED by another program", done.stdout, done.stderr, flush=True)
# Other limits can still be lowered.
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
resource.prlimit(0, resource.RLIMIT_CORE)
print("LOOKED", flush=True)


def custom_kernel(data):
    left, right, out = data
    return torch.matmul(left, right, out=out)
