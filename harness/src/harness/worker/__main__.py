"""The guest started by exec: arguments are the control socket's descriptor and the file's path."""

import sys

from harness.worker import guest

if __name__ == "__main__":
    guest.serve(int(sys.argv[1]), sys.argv[2])
