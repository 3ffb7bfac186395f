"""Executes the program in the arguments in an imitated pod without privileges."""

import os
import platform
import sys

from harness.sandbox import linux, seccomp
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
    column, audit = seccomp._MACHINES[platform.machine()]
    numbers = [seccomp.REFUSED[name][column] for name in _REFUSED]
    code = [
        *seccomp._check_machine(audit),
        *seccomp._answer_call(seccomp._CLONE3, seccomp._ENOSYS),
        *(step for number in numbers for step in seccomp._answer_call(number, seccomp._EPERM)),
        *seccomp._check_clone(seccomp._CLONE[audit]),
        seccomp._return(seccomp._ALLOW),
    ]
    linux.forbid_new_privileges()
    linux.install_filter(seccomp.assemble_filter(code))


if __name__ == "__main__":
    open_the_way()
    refuse()
    os.execv(sys.argv[1], sys.argv[1:])  # noqa: S606  (arguments of our own tests)
