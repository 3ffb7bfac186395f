"""What a process gives up, irrevocably, before it runs foreign code."""

import contextlib
import os
import resource
from pathlib import Path

from harness.sandbox import linux
from harness.sandbox.spec import WORKER_UID, Spec

# Without a limit of its own, a user's other processes count too: enough to stop a fork bomb.
_PROCESSES_OF_A_USER = 4096
_KILLED_FIRST = "1000"


def limit(spec: Spec, *, has_processes: bool = True) -> None:
    """Sets the limits and cores that need no control group, and those in place of a missing one.

    Without `has_processes` the number of processes is left to be limited later.
    """
    if spec.cores:
        os.sched_setaffinity(0, spec.cores)
    limits = spec.limits
    wanted = {
        resource.RLIMIT_NOFILE: limits.files_max,
        resource.RLIMIT_FSIZE: limits.file_bytes_max,
        resource.RLIMIT_CPU: limits.cpu_s,
        resource.RLIMIT_CORE: 0,
    }
    # A GPU's driver reserves far more than it uses, and RLIMIT_DATA may count it.
    if "memory" not in spec.walls and not spec.devices:
        wanted[resource.RLIMIT_DATA] = limits.memory_bytes
    if not spec.devices:
        wanted[resource.RLIMIT_AS] = limits.address_space_factor * limits.memory_bytes
    if has_processes and "pids" not in spec.walls:
        is_alone = "uid" in spec.walls or spec.has_namespaces
        wanted[resource.RLIMIT_NPROC] = limits.processes_max if is_alone else _PROCESSES_OF_A_USER
    for what, value in wanted.items():
        hard = resource.getrlimit(what)[1]
        # RLIM_INFINITY is -1, and no process may raise what it was given.
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)  # noqa: PLW2901
        resource.setrlimit(what, (value, value))


def drop(spec: Spec) -> None:
    """No capability is left in this process or to be had, and as root it is another user."""
    linux.empty_bounding_set()
    if "uid" in spec.walls:
        linux.become(WORKER_UID)
    else:
        linux.drop_capabilities()
    linux.forbid_new_privileges()


def die_first() -> None:
    """Where memory runs out, this process goes before anything of the platform."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_KILLED_FIRST, encoding="ascii")


def is_root() -> bool:
    """Whether this process may become another user."""
    return os.geteuid() == 0
