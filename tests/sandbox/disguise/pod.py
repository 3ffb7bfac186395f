"""Executes the program in the arguments in an imitated pod without privileges."""

import os
import platform
import sys

from harness.sandbox import linux, walls
from tests.sandbox.disguise.reach import open_the_way

_REFUSED = (
    "bpf",
    "fsopen",
    "keyctl",
    "mount",
    "move_mount",
    "open_tree",
    "perf_event_open",
    "pivot_root",
    "ptrace",
    "setns",
    "umount2",
    "unshare",
    "userfaultfd",
)


def refuse() -> None:
    """Load a filter that refuses only these calls and new namespaces, like containers."""
    column, audit = walls._MACHINES[platform.machine()]
    numbers = [walls.REFUSED[name][column] for name in _REFUSED]
    code = [
        *walls._check_machine(audit),
        *walls._answer_call(walls._CLONE3, walls._ENOSYS),
        *(step for number in numbers for step in walls._answer_call(number, walls._EPERM)),
        *walls._check_clone(walls._CLONE[audit]),
        walls._return(walls._ALLOW),
    ]
    linux.forbid_new_privileges()
    linux.install_filter(walls.assemble_filter(code))


if __name__ == "__main__":
    open_the_way()
    refuse()
    os.execv(sys.argv[1], sys.argv[1:])  # noqa: S606  (arguments of our own tests)
