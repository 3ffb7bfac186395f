"""The trusted process: requests in, a line each; for each its messages and one report out.

Arguments: the pid of the process that started it, with which it ends, and a JSON object of options
(`folder` for runs, `state`, `level`, `launcher`; for tests `without` walls, `defences` turned off,
and `ncu`, a stand-in for the profiler that is run on any device).
"""

import json
import sys

from harness.supervisor import host

if __name__ == "__main__":
    host.serve(int(sys.argv[1]), json.loads(sys.argv[2]))
