"""Executes the program in the arguments in an imitated pod, with the interpreter left in place."""

import os
import sys

from tests.sandbox.disguise.pod import refuse

if __name__ == "__main__":
    refuse()
    os.execv(sys.argv[1], sys.argv[1:])  # noqa: S606  (arguments of our own tests)
