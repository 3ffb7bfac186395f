"""Becomes an ordinary user, then executes the arguments: `python user.py PROGRAM ...`."""

import os
import sys

from tests.sandbox.disguise.reach import open_the_way

UID = 64010

if __name__ == "__main__":
    open_the_way()
    os.setgroups([])
    os.setresgid(UID, UID, UID)
    os.setresuid(UID, UID, UID)
    os.execv(sys.argv[1], sys.argv[1:])  # noqa: S606  (arguments of our own tests)
