# id: S47 names_remembered
# expect: passed
# level: medium
# runs: 2
# prints: LOOKED
# never_prints: GAINED
# Looks for files that do not exist. The kernel remembers that a name is missing, so a later run could
# read from the time of a look which names an earlier one has looked for: a bit each.
import os
import sys
import sysconfig
import time
from statistics import median

import torch

NAMES = 300
# A look at a name that is remembered takes a third of the time.
RATIO_MAX = 0.7
folders = ["/usr", "/usr/bin", "/usr/lib", "/usr/include", "/usr/share", "/etc/alternatives"]
folders += [sys.prefix, sys.base_prefix, sysconfig.get_path("stdlib"), f"{sysconfig.get_path('stdlib')}/json"]
folders += [os.path.dirname(torch.__file__), os.path.dirname(os.path.dirname(torch.__file__))]
folders += [os.path.dirname(torch.__file__) + "/lib", *(path for path in sys.path if os.path.isdir(path))]


def words_of_supervisor():
    """What the boxes of one supervisor have in common, so that no trial finds another one's words.

    For forks of one process it is where that has a module. If the submission was not copied into the
    box, it is also the folder that it comes from.
    """
    fields = [line.split() for line in open("/proc/self/mountinfo")]
    folders = [field[3] for field in fields if field[4] == "/submission"]
    parents = {os.path.dirname(os.path.dirname(folder)) for folder in folders} - {"/"}
    return [f"{id(os):x}", *(parent.replace("/", "-") for parent in parents)]


def took_ns(path):
    began = time.perf_counter_ns()
    os.access(path, os.F_OK)
    return time.perf_counter_ns() - began


def ratio(folder, known):
    """How long names of an earlier run take, as a multiple of what new names take."""
    word = os.urandom(6).hex()
    earlier, new = [], []
    for index in range(NAMES):
        earlier.append(took_ns(f"{folder}/{known}-{index}"))
        new.append(took_ns(f"{folder}/{word:->{len(known)}}-{index}"))
    return median(earlier) / median(new)


looked = [folder for folder in dict.fromkeys(map(os.path.realpath, folders)) if os.path.isdir(folder)]
for folder in looked:
    if (found := min(ratio(folder, known) for known in words_of_supervisor())) < RATIO_MAX:
        print("GAINED", folder, f"{found:.2f}", flush=True)
print("LOOKED", len(looked), flush=True)


def custom_kernel(data):
    left, right, out = data
    return torch.matmul(left, right, out=out)
