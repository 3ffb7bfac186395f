"""Becomes the program in the arguments in a pretend pod, its interpreter left where it is."""

import os
import sys

from tests.sandbox.disguise.pod import refuse

if __name__ == "__main__":
    refuse()
    os.execv(sys.argv[1], sys.argv[1:])  # noqa: S606  (arguments of our own tests)
