"""A run may take a spare process, forked ahead; it finds nothing of any run in it."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.devices.lock import DeviceTurn, make_device_lock, open_device_lock
from harness.sandbox.keeper import SPARE_NAME as SPARE_BOX
from harness.sandbox.linux import descendants
from harness.supervisor.process import SPARE_NAME as SPARE_RUN
from tests.support.harness import HONEST, REFERENCE, Host, Warm
from tests.support.processes import name_of
from tests.support.waits import comes_true

pytestmark = [pytest.mark.box, pytest.mark.long]

# An author's code that tells what it finds in its process, and then leaves what it can.
TELLING = (
    REFERENCE.replace("def check_implementation(", "def unused(")
    + r"""

import ctypes, gc, json, os, random, re, resource, signal, sys, time
import torch
from pathlib import Path


def find_marks():
    # Without /proc/self/mem, which an account without rights may not open.
    count = 0
    for line in Path("/proc/self/maps").read_text().splitlines():
        bounds, rights, *_ = line.split()
        if rights.startswith("rw") and "[v" not in line:
            begin, end = (int(bound, 16) for bound in bounds.split("-"))
            place = (ctypes.c_char * (end - begin)).from_address(begin)
            count += len(re.findall(b"LEFT[-]BEHIND", place))
    return count


def find():
    return {
        "pid": os.getpid(),
        "random": [random.random(), float(torch.rand(1, dtype=torch.float64))],
        "cpu_s": time.process_time(),
        "walls": {
            "environment": sorted(os.environ.items()),
            "files": sorted(path.name for path in Path.cwd().iterdir()),
            "records": sorted(path.name for path in Path("records").iterdir()),
            # A run limits its data to what is free.
            "limits": [resource.getrlimit(n) for n in range(16) if n != resource.RLIMIT_DATA],
            "timer": signal.getitimer(signal.ITIMER_REAL),
            "collects": gc.isenabled(),
            "threads": torch.get_num_threads(),
            "clock": type(time.time).__name__,
            "rights": [
                line
                for line in Path("/proc/self/status").read_text().splitlines()
                if line.startswith(("Cap", "NoNew", "Seccomp:", "Uid", "Gid", "Groups"))
            ],
        },
    }


def leave():
    # Joined here, so that no constant is found as a mark.
    mark = "-".join(("LEFT", "BEHIND"))
    os.environ["MARK"] = mark
    Path(mark).write_text(mark)
    Path("records", mark).write_text(mark)
    random.seed(1)
    torch.manual_seed(1)
    torch.set_num_threads(2)
    time.time = lambda: 0.0
    sys.modules["left"] = [mark + str(number) for number in range(1000)]


def check_implementation(data, output):
    found = find() | {"marks": find_marks()}
    leave()
    return False, json.dumps(found)
"""
)


class Runs:
    """Runs of a problem that tells about its process, in a harness of their own."""

    def __init__(self, host: Host, warm: Warm) -> None:
        host.files = {"reference.py": TELLING}
        host.warm = warm
        self.host = host

    def find(self, mode: str = "test") -> Any:
        """Return what the author's code of the next run finds."""
        report = self.host.run(HONEST, mode)
        assert report.verdict == "wrong_answer", report
        return json.loads(report.cases[0].message)

    def spares(self, *names: str) -> list[int]:
        """Return the spares of these names, by default the processes of runs."""
        supervisor = self.host.warm.harness.pid
        assert supervisor is not None
        return [pid for pid in descendants(supervisor) if name_of(pid) in (names or (SPARE_RUN,))]

    def wait_for_spare(self, *earlier: int) -> int:
        """Return the spare process once there is one, and it is none of the earlier ones.

        Linux may leave a child out of the list for a moment, when another one ends.
        """
        found: list[int] = []

        def is_new() -> bool:
            found[:] = self.spares()
            return len(found) == 1 and found[0] not in earlier

        assert comes_true(is_new, 30.0)
        return found[0]


@pytest.fixture
def open_runs(tmp_path: Path) -> Iterator[Callable[..., Runs]]:
    """Opens harnesses with options, and closes them after the test."""
    opened: list[Warm] = []

    def open_(**options: Any) -> Runs:
        opened.append(Warm(**options))
        folder = tmp_path / str(len(opened))
        folder.mkdir()
        return Runs(Host(folder, opened[-1]), opened[-1])

    yield open_
    for warm in opened:
        warm.close()


def test_a_spare_process_is_used_once_and_has_nothing_of_a_former_run(
    open_runs: Callable[..., Runs],
) -> None:
    fresh, runs = open_runs(spares=0).find(), open_runs()
    found, used = [runs.find()], [0]
    for _ in range(2):
        used.append(runs.wait_for_spare())
        found.append(runs.find())
    assert [one["pid"] for one in found[1:]] == used[1:]
    assert len({one["pid"] for one in found}) == len(found)
    for one in found:
        assert one["walls"] == fresh["walls"]
        assert one["marks"] == 0
        assert one["cpu_s"] < fresh["cpu_s"] + 1.0
        assert one["random"] == fresh["random"], "each run seeds its generators"


def test_a_spare_process_that_does_not_fit_or_was_killed_is_not_used(
    open_runs: Callable[..., Runs],
) -> None:
    runs = open_runs()
    runs.find()
    first = runs.wait_for_spare()
    assert runs.find("benchmark")["pid"] != first, "only a timed run keeps its core awake"
    second = runs.wait_for_spare(first)
    assert runs.find("benchmark")["pid"] == second
    third = runs.wait_for_spare()
    os.kill(third, signal.SIGKILL)
    assert runs.find("benchmark")["pid"] != third
    last = runs.wait_for_spare()
    supervisor = runs.host.warm.harness.pid
    assert supervisor is not None
    os.kill(supervisor, signal.SIGKILL)
    assert comes_true(lambda: not Path(f"/proc/{last}").exists()), "it ends with the supervisor"


def test_an_old_spare_is_replaced_and_none_is_made_while_something_is_timed(
    open_runs: Callable[..., Runs],
) -> None:
    lock = make_device_lock()
    runs = open_runs(device_lock=lock, slots=2, slot=0, spare_s_max=1.0)
    runs.find()
    both = (SPARE_BOX, SPARE_RUN)
    old = set(runs.spares(*both)) | {runs.wait_for_spare()}
    assert comes_true(lambda: bool(runs.spares()) and old.isdisjoint(runs.spares()), 30.0)
    timed = DeviceTurn(open_device_lock(lock), 30.0)
    timed.take(is_alone=True)
    assert comes_true(lambda: not runs.spares(*both), 30.0)
    assert not comes_true(lambda: bool(runs.spares(*both)), 1.5)
    timed.release()
    assert comes_true(lambda: {name_of(pid) for pid in runs.spares(*both)} == set(both), 30.0)
    for descriptor in lock:
        os.close(descriptor)
