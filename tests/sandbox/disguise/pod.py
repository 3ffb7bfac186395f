"""Executes the program in the arguments in an imitated pod without privileges."""

import os
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
    """Load the filter."""
    linux.forbid_new_privileges()
    linux.install_filter(seccomp.build_refusing_filter(_REFUSED))


if __name__ == "__main__":
    open_the_way()
    refuse()
    os.execv(sys.argv[1], sys.argv[1:])  # noqa: S606  (arguments of our own tests)
