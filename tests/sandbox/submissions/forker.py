"""A submission that forks until it fails, and prints how often it succeeded."""

import json
import os
import signal
import sys

FORKS_MAX = 500


def custom_kernel(data: object) -> object:
    """An honest submission."""
    return data


children: list[int] = []
try:
    while len(children) < FORKS_MAX:
        if (pid := os.fork()) == 0:
            signal.pause()
        children.append(pid)
except BlockingIOError:
    pass
for child in children:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
sys.stdout.write(json.dumps({"forked": len(children)}))
