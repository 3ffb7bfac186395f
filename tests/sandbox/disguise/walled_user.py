"""Becomes an ordinary user without user namespaces, then executes the arguments."""

import os
import sys
from pathlib import Path

from harness.sandbox import linux
from tests.sandbox.disguise.reach import open_the_way
from tests.sandbox.disguise.user import UID

if __name__ == "__main__":
    open_the_way()
    os.setgroups([])
    os.setresgid(UID, UID, UID)
    os.setresuid(UID, UID, UID)
    linux.become_readable()
    linux.unshare(linux.CLONE_NEWUSER, "user")
    Path("/proc/self/uid_map").write_text(f"{UID} {UID} 1")
    Path("/proc/sys/user/max_user_namespaces").write_text("0")
    os.execv(sys.argv[1], sys.argv[1:])  # noqa: S606  (arguments of our own tests)
