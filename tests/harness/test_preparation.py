"""Builds, imports and warm-ups share one budget; idle time in them is limited more tightly."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from harness.build.teams import preparation_s
from harness.messages import CaseFailed
from harness.problem import load_problem
from harness.sandbox import linux
from harness.sandbox.preparation import IDLE_S_MAX, LOOK_S, PreparationBudget
from tests.support.harness import HONEST, Host

IDLE = "import time; time.sleep(60)"
BUSY = "while True: pass"
# A compiler's driver waits while the program that it started works.
DRIVES = f"import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', {BUSY!r}])"
SLEEPS_FOR_SHAPES = """
import time
SHAPES = set()
def custom_kernel(data):
    if data[0].shape not in SHAPES:
        SHAPES.add(data[0].shape)
        time.sleep(12)
    return data[1].copy_(data[0])
"""
SLEEPING_RANK = """
import os, time
def custom_kernel(data):
    time.sleep(45 * (os.environ["RANK"] == "1"))
    return data[1].copy_(data[0])
"""


class Program:
    """A program beneath a shell that only waits, and everything that it started."""

    def __init__(self, source: str) -> None:
        arguments = ("/bin/sh", "-c", '"$0" -S -c "$1" & wait', sys.executable, source)
        self._shell = subprocess.Popen(arguments, start_new_session=True)

    def activity(self) -> linux.Activity:
        """Return what its processes do."""
        return linux.activity(self._shell.pid)

    def waited_us(self) -> float:
        """Return 0: its waiting is not counted."""
        return 0.0

    def wait(self, within_s: float) -> None:
        """Wait for its end, but not for longer."""
        with suppress(subprocess.TimeoutExpired):
            self._shell.wait(within_s)

    def end(self) -> None:
        """Kill all its processes."""
        linux.kill([*linux.descendants(self._shell.pid), self._shell.pid])
        self._shell.wait()


@contextmanager
def running(source: str) -> Iterator[Program]:
    """A program in Python."""
    program = Program(source)
    try:
        yield program
    finally:
        program.end()


def prepare(budget: PreparationBudget, source: str, limit_s: float, looks_s: float) -> str:
    """Return why the part of a program was stopped within some seconds, "" if it was not."""
    ends_at = time.monotonic() + looks_s
    try:
        with running(source) as program, budget.part("the import", limit_s, program) as part:
            while time.monotonic() < ends_at:
                program.wait(within_s=LOOK_S)
                part.look()
    except CaseFailed as failure:
        return f"{failure.verdict}: {failure.message}"
    return ""


def test_a_part_that_sleeps_is_stopped_long_before_its_limit() -> None:
    budget = PreparationBudget(wall_s_max=600, idle_s_max=1.0)
    reason = prepare(budget, IDLE, limit_s=60, looks_s=30)
    assert reason.startswith(
        "timed_out: the import was stopped: the build, the imports and the warm-ups"
    )
    assert "may be idle for 1 s together" in reason
    assert reason.endswith("s of processor time")
    assert budget.wall_s < 20


@pytest.mark.parametrize("source", [BUSY, DRIVES], ids=["alone", "a compiler's driver"])
def test_work_is_not_idle_whichever_process_does_it(source: str) -> None:
    budget = PreparationBudget(wall_s_max=600, idle_s_max=1.0)
    assert prepare(budget, source, limit_s=60, looks_s=2.0) == ""
    assert budget.wall_s >= 2.0
    assert budget.cpu_s > 0


def test_a_part_has_a_limit_of_its_own_which_its_message_names() -> None:
    budget = PreparationBudget(wall_s_max=600, idle_s_max=600)
    reason = prepare(budget, BUSY, limit_s=0.5, looks_s=30)
    assert reason.startswith("timed_out: the import took more than 0.5 s; it used ")


def test_all_parts_together_have_a_limit_and_a_used_up_budget_starts_none() -> None:
    budget = PreparationBudget(wall_s_max=1.0, idle_s_max=600)
    reason = prepare(budget, BUSY, limit_s=60, looks_s=30)
    assert "the warm-ups of this run may take 1 s together" in reason
    assert "the import was stopped" in prepare(budget, IDLE, limit_s=60, looks_s=0.0)


def test_the_limit_of_a_run_grows_with_the_build_budget_of_its_problem(host: Host) -> None:
    host.budgets_s = {"build": 7.0}
    host.write()
    problem = load_problem(host.folder / "problem")
    assert preparation_s(problem, "ranked") == 120 + 10 * 7


def test_an_import_that_sleeps_says_what_it_used(host: Host) -> None:
    host.budgets_s = {"build": 1.0}
    report = host.run("import time\ntime.sleep(30)\n" + HONEST)
    assert (report.verdict, report.stage) == ("timed_out", "build")
    assert "the import took more than 1 s; it used 0." in report.reason


@pytest.mark.long
def test_many_short_sleeps_are_added_up(host: Host) -> None:
    report = host.run("import time\ntime.sleep(12)\n" + SLEEPS_FOR_SHAPES, "benchmark")
    assert report.verdict == "timed_out"
    assert "the warm-up for float32[16, 16]" in report.reason
    assert f"may be idle for {IDLE_S_MAX:g} s together" in report.reason
    assert report.took_s < 40


@pytest.mark.long
def test_a_sleeping_rank_is_stopped_although_the_other_one_is_ready(host: Host) -> None:
    host.more = {"world_size": 2}
    host.files["reference.py"] = host.files["reference.py"].replace(
        "size: int, seed: int", "size: int, seed: int, world_size: int = 2, rank: int = 0"
    )
    report = host.run(SLEEPING_RANK)
    assert report.verdict == "timed_out", report.reason
    assert f"may be idle for {IDLE_S_MAX:g} s together" in report.reason
    assert report.took_s < 40


@pytest.mark.long
def test_a_problems_own_program_may_not_sleep_either(host: Host) -> None:
    host.files = {"eval.py": "import submission\n", "reference.py": ""}
    host.told_besides = {"main": "eval.py"}
    host.budgets_s = {}
    report = host.run("import time\ntime.sleep(55)\n")
    assert report.verdict == "timed_out", report.reason
    assert "the import was stopped" in report.reason
    assert report.took_s < 40


def test_a_thread_that_wants_a_core_runs_while_the_first_thread_waits_for_it() -> None:
    spins = "import threading\nthreading.Thread(target=lambda: [0 for _ in iter(int, 1)]).start()"
    with running(spins) as program:
        ends_at = time.monotonic() + 10.0
        # After 0.5 s of processor time the first thread is at its end and waits.
        while (activity := program.activity()).cpu_s < 0.5:
            assert time.monotonic() < ends_at
        assert activity.is_running
