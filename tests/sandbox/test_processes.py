"""Processes are found and ended, however they hide."""

import os
import subprocess
import sys
from pathlib import Path

from harness.sandbox.linux import descendants, end_descendants

from .forks import in_a_fork

HIDING = """
import os, sys, time
from harness.sandbox import linux
linux.become_reaper()
if os.fork() == 0:
    os.setsid()
    for _ in range(20):
        if os.fork() == 0:
            with open("/proc/self/comm", "w") as name:
                name.write("a) R 1 (")
            time.sleep(60)
    os._exit(0)
os.wait()
print(len(linux.descendants(os.getpid())), linux.end_descendants(), flush=True)
print(len(linux.descendants(os.getpid())), flush=True)
"""


def test_orphans_of_a_reaper_are_found_and_ended() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HIDING], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout == "20 True\n0\n"


def test_descendants_are_listed_parents_first() -> None:
    script = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'input()'])"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE) as child:
        while not (found := descendants(child.pid)) and child.poll() is None:
            continue
        among = descendants(os.getpid())
        child.communicate(b"\n", timeout=30)
    assert among.index(child.pid) < among.index(found[0])
    assert not any(Path(f"/proc/{pid}").exists() for pid in found)


def test_a_process_without_children_has_nothing_to_end() -> None:
    # In a fork, for whatever this process started it still needs.
    assert in_a_fork(end_descendants) is True
