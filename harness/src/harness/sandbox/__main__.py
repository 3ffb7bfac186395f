"""Prints what this machine can confine a worker by, as one line of JSON."""

import sys

from harness.sandbox.probe import probe

if __name__ == "__main__":
    sys.stdout.write(probe().to_json() + "\n")
