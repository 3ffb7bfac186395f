"""Starts a box as a supervisor would, says which processes there are, and waits to be killed.

Its arguments: a folder to work in, and the source of a submission.
"""

import sys
from pathlib import Path

from harness.sandbox.forked import Forked
from harness.sandbox.probe import probe
from harness.sandbox.processes import descendants
from tests.sandbox.visit import READY, Lodge

if __name__ == "__main__":
    lodge = Lodge(Forked(), probe(), Path(sys.argv[1]))
    visit = lodge.enter(lodge.spec(sys.argv[2]))
    assert visit.answer() == READY
    assert isinstance(lodge.launcher, Forked)
    pids = [lodge.launcher.pid, *descendants(lodge.launcher.pid)]
    sys.stdout.write(" ".join(map(str, pids)) + "\n")
    sys.stdout.flush()
    sys.stdin.read()
