"""Prints what a worker finds in its box: what others may have left, and its walls."""

import json
import os
import random
import re
import resource
import time
from pathlib import Path

import torch

# The text does not match itself.
_MARK = re.compile(rb"LEFT[-]BEHIND")
FOLDERS = ("/submission", "/scratch", "/dev/shm")
_NUMBERS = ("RLIMIT_AS", "RLIMIT_CORE", "RLIMIT_CPU", "RLIMIT_DATA", "RLIMIT_FSIZE")


def find_marks() -> int:
    """Count a former job's marks in the memory of this process."""
    count = 0
    with Path("/proc/self/mem").open("rb", buffering=0) as memory:
        for line in Path("/proc/self/maps").read_text().splitlines():
            bounds, rights, *_ = line.split()
            if rights.startswith("rw") and "[v" not in line:
                begin, end = (int(bound, 16) for bound in bounds.split("-"))
                memory.seek(begin)
                try:
                    count += len(_MARK.findall(memory.read(end - begin)))
                except OSError:
                    continue
    return count


def read_status() -> dict[str, str]:
    """Return what the kernel says about the rights of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    names = ("Cap", "NoNew", "Seccomp", "Uid", "Gid", "Groups", "Cpus_allowed_list", "NSpid")
    return {line.split(":")[0]: line.split(":")[1] for line in lines if line.startswith(names)}


def read_mounts() -> list[list[str]]:
    """Return where something is mounted, and whether it can be written to."""
    lines = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return sorted([line[4], line[5].split(",")[0]] for line in lines)


walls = {
    "status": read_status(),
    "mounts": read_mounts(),
    "limits": {name: resource.getrlimit(getattr(resource, name)) for name in _NUMBERS},
    "files_max": resource.getrlimit(resource.RLIMIT_NOFILE),
    "environment": sorted(os.environ.items()),
    "descriptors": sorted(path.name for path in Path("/proc/self/fd").iterdir()),
    "processes": sorted(path.name for path in Path("/proc").glob("[0-9]*")),
    "folder": str(Path.cwd()),
    "groups": Path("/proc/self/cgroup").read_text().count("\n"),
    "files": [sorted(map(str, Path(path).iterdir())) for path in FOLDERS],
}
traces = {
    "marks": find_marks(),
    "random": [random.random(), float(torch.rand(1, dtype=torch.float64))],
    "cpu_s": time.process_time(),
}
print(json.dumps({"walls": walls, "traces": traces}))  # noqa: T201


def custom_kernel(data: object) -> object:
    """Return the data."""
    return data
