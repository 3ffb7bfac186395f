# id: S48 content_remembered
# expect: passed
# level: strong
# runs: 2
# prints: LOOKED
# never_prints: GAINED
# Reads pages of a large file that few others read. What was read stays in memory, so a later run
# could find out from what has to come from disk which pages an earlier one has read: a bit each.
import hashlib
import os

import torch

PAGE, PAGES = 4096, 128
path = os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so")
file = os.open(path, os.O_RDONLY)
os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
count = os.fstat(file).st_size // PAGE


def words_of_supervisor():
    """What the boxes of one supervisor have in common, so that no trial finds another one's words.

    For forks of one process it is where that has a module. If the submission was not copied into the
    box, it is also the folder that it comes from.
    """
    fields = [line.split() for line in open("/proc/self/mountinfo")]
    folders = [field[3] for field in fields if field[4] == "/submission"]
    parents = {os.path.dirname(os.path.dirname(folder)) for folder in folders} - {"/"}
    return [f"{id(os):x}", *(parent.replace("/", "-") for parent in parents)]


def read_from_disk():
    """How many bytes this process has read from disks."""
    lines = open("/proc/self/io").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("read_bytes"))


def in_memory(word):
    """How many of the pages that a word names need not be read from disk."""
    found = 0
    for index in range(PAGES):
        page = int.from_bytes(hashlib.sha256(f"{word} {index}".encode()).digest()[:8], "big") % count
        before = read_from_disk()
        os.pread(file, PAGE, page * PAGE)
        found += read_from_disk() == before
    return found


new, earlier = in_memory(os.urandom(8).hex()), max(map(in_memory, words_of_supervisor()))
print("IN MEMORY", new, earlier, flush=True)
if earlier > new + PAGES // 4:
    print("GAINED", earlier, "pages of an earlier run, and", new, "of others", flush=True)
print("LOOKED", PAGES, flush=True)


def custom_kernel(data):
    left, right, out = data
    return torch.matmul(left, right, out=out)
