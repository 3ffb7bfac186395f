"""The zygote process: its arguments are its socket, its parent's pid, and a JSON object."""

import json
import sys

from harness.zygote import nursery

if __name__ == "__main__":
    nursery.serve(int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3]))
