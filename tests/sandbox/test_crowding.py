"""A run waits for a machine that has more runnable threads than cores, but not for ever."""

import os
from collections.abc import Iterable
from contextlib import ExitStack
from itertools import chain, repeat
from pathlib import Path

import pytest

from harness.sandbox.crowding import Crowding, QuietWait, crowding
from tests.support.processes import busy_process
from tests.support.waits import until

BUSY, QUIET = Crowding(9, 2), Crowding(1, 2)


class Machine:
    """A machine whose readings are given, and where time passes only by sleeping."""

    def __init__(self, readings: Iterable[Crowding]) -> None:
        self.readings = iter(readings)
        self.seconds = 0.0

    def sleep(self, for_s: float) -> None:
        """Let the time pass."""
        self.seconds += for_s

    def wait(self, left_s: float) -> QuietWait:
        """A wait on this machine."""
        return QuietWait(left_s, lambda: next(self.readings), self.sleep, lambda: self.seconds)


def test_a_busy_machine_is_waited_for_and_then_the_run_is_refused() -> None:
    machine = Machine(repeat(BUSY))
    reason = "the machine is busy: 9 runnable threads on 2 cores for 60 s; the run was not timed"
    assert machine.wait(60).wait() == reason
    assert 60 <= machine.seconds < 61


def test_a_run_begins_when_the_machine_becomes_quiet() -> None:
    machine = Machine(chain(repeat(BUSY, 90), repeat(QUIET)))
    assert machine.wait(60).wait() == ""
    assert 4 < machine.seconds < 10


def test_all_waits_of_a_run_share_its_time() -> None:
    machine = Machine(chain(repeat(BUSY, 90), repeat(QUIET, 9), repeat(BUSY)))
    wait = machine.wait(60)
    assert wait.wait() == ""
    assert "runnable threads" in wait.wait()
    assert machine.seconds < 61


def test_a_moment_does_not_make_a_machine_busy() -> None:
    machine = Machine(chain(repeat(BUSY, 3), repeat(QUIET)))
    assert machine.wait(60).wait() == ""
    assert machine.seconds < 0.1


def test_a_run_without_time_to_wait_begins_on_any_machine() -> None:
    machine = Machine(repeat(BUSY))
    assert machine.wait(0).wait() == ""
    assert machine.seconds == 0


def test_a_machine_with_more_busy_processes_than_cores_is_crowded() -> None:
    cores = os.cpu_count() or 1
    with ExitStack() as others:
        for number in range(2 * cores):
            others.enter_context(busy_process(number % cores))
        until(lambda: crowding().is_crowded)
        found = QuietWait(0.05).wait()
    assert found.startswith("the machine is busy: ")


@pytest.mark.parametrize(("runnable", "is_crowded"), [(2, False), (3, True)])
def test_as_many_threads_as_cores_are_no_crowd(runnable: int, *, is_crowded: bool) -> None:
    assert Crowding(runnable, 2).is_crowded == is_crowded


def test_the_thread_that_reads_does_not_count(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text("cpu  1 2 3\nprocesses 900\nprocs_running 5\nprocs_blocked 7\n")
    assert crowding(stat).runnable == 4


def test_a_machine_that_does_not_count_is_never_crowded(tmp_path: Path) -> None:
    assert not crowding(tmp_path / "absent").is_crowded
