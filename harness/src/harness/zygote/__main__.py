"""The zygote process: its arguments are its socket, its parent's pid, and what it is to import."""

import sys

from harness.zygote import nursery

if __name__ == "__main__":
    nursery.serve(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
