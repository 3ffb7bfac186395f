"""Starts a box like a supervisor, prints the processes, and waits to be killed."""

import sys
from pathlib import Path

from harness.sandbox.launcher import ZygoteLauncher
from harness.sandbox.linux import descendants
from harness.sandbox.probe import probe_isolation
from tests.sandbox.boxes import READY, BoxFactory

if __name__ == "__main__":
    box_factory = BoxFactory(ZygoteLauncher(), probe_isolation(), Path(sys.argv[1]))
    running_box = box_factory.start_box(box_factory.spec(sys.argv[2]))
    assert running_box.answer() == READY
    assert isinstance(box_factory.launcher, ZygoteLauncher)
    pids = [box_factory.launcher.pid, *descendants(box_factory.launcher.pid)]
    sys.stdout.write(" ".join(map(str, pids)) + "\n")
    sys.stdout.flush()
    sys.stdin.read()
