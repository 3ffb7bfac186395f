"""The referee has a real-time priority during a call, and only then; and it counts its waits."""

import os
import resource
import time
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from harness.sandbox import linux, realtime, seccomp
from harness.sandbox.box import SandboxFault
from harness.sandbox.realtime import Referee
from tests.support.processes import busy_process

from .forks import in_a_fork

needs_priority = pytest.mark.skipif(
    bool(realtime.find_obstacle()), reason="this machine allows no real-time priority"
)
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="not root: nobody else can be become")
ORDINARY = os.SCHED_OTHER | os.SCHED_RESET_ON_FORK
REALTIME = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
CALL_S = 0.002
CALLS = 20


def spin(for_s: float) -> None:
    """Keep the core for a while."""
    ends_at = time.monotonic() + for_s
    while time.monotonic() < ends_at:
        continue


def waits_us(*, has_own_core: bool) -> float:
    """How long a referee waited during its calls, on a core with three busy processes."""
    core = min(os.sched_getaffinity(0))
    os.sched_setaffinity(0, [core])
    with ExitStack() as others:
        for _ in range(3):
            others.enter_context(busy_process(core))
        referee = Referee(has_own_core=has_own_core)
        waited_us = 0.0
        for _ in range(CALLS):
            with referee:
                before_us = referee.waited_us()
                spin(CALL_S)
                waited_us += referee.waited_us() - before_us
    return waited_us


@needs_priority
def test_the_priority_lasts_for_a_call() -> None:
    def step() -> list[int]:
        referee = Referee(has_own_core=True)
        policies = [os.sched_getscheduler(0)]
        with referee:
            policies.append(os.sched_getscheduler(0))
        return [*policies, os.sched_getscheduler(0)]

    assert in_a_fork(step) == [ORDINARY, REALTIME, ORDINARY]


@needs_priority
def test_a_call_that_fails_gives_the_priority_up() -> None:
    def step() -> int:
        with pytest.raises(SandboxFault), Referee(has_own_core=True):
            raise SandboxFault("of the call")
        return os.sched_getscheduler(0)

    assert in_a_fork(step) == ORDINARY


@needs_priority
def test_no_child_inherits_the_priority() -> None:
    def step() -> list[int]:
        with Referee(has_own_core=True):
            return [in_a_fork(lambda: os.sched_getscheduler(0))]

    assert in_a_fork(step) == [os.SCHED_OTHER]


def test_a_referee_that_shares_its_core_has_no_priority() -> None:
    def step() -> list[object]:
        referee = Referee(has_own_core=False)
        with referee:
            return [os.sched_getscheduler(0), referee.describe()]

    assert in_a_fork(step) == [os.SCHED_OTHER, {"referee_priority": "normal"}]


@needs_priority
def test_a_referee_does_not_wait_for_busy_processes_on_its_core() -> None:
    ordinary_us = in_a_fork(lambda: waits_us(has_own_core=False))
    realtime_us = in_a_fork(lambda: waits_us(has_own_core=True))
    # Four processes share the core, so it waits longer than it works.
    assert ordinary_us > 1e6 * CALL_S * CALLS / 2
    assert realtime_us < ordinary_us / 20


@needs_priority
def test_a_referee_that_keeps_its_core_is_a_fault_of_the_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(realtime, "_US_LIMITS", (200_000, 2_000_000))

    def step() -> str:
        realtime.permit(may_keep_capability=True)
        try:
            with Referee(has_own_core=True):
                spin(1.5)
        except SandboxFault as fault:
            return f"{fault}, {os.sched_getscheduler(0) == ORDINARY}"
        return "nothing"

    reason = f"the referee kept its core at a real-time priority for {realtime.HELD_S_MAX} s, True"
    assert in_a_fork(step) == reason


@needs_priority
def test_many_short_calls_do_not_add_up_to_one_that_keeps_its_core(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(realtime, "_US_LIMITS", (200_000, 2_000_000))
    monkeypatch.setattr(realtime, "_HELD_NS_MAX", 50_000_000)

    def step() -> str:
        realtime.permit(may_keep_capability=True)
        referee = Referee(has_own_core=True)
        for _ in range(200):
            with referee:
                spin(CALL_S)
        return "no fault"

    assert in_a_fork(step) == "no fault"


def test_a_process_without_the_right_has_no_priority() -> None:
    def step() -> list[object]:
        realtime.forbid()
        linux.drop_capabilities()
        referee = Referee(has_own_core=True)
        with referee:
            return [os.sched_getscheduler(0), referee.is_realtime, realtime.find_obstacle()]

    assert in_a_fork(step) == [os.SCHED_OTHER, False, "Operation not permitted"]


@needs_root
@needs_priority
def test_the_right_is_kept_by_another_user_and_for_itself_alone() -> None:
    def step() -> list[object]:
        parent = os.getppid()
        kept = realtime.permit(may_keep_capability=True)
        linux.become_user(64000, kept)
        if kept:
            seccomp.forbid_foreign_scheduling()
        refused = []
        attempts: list[Callable[[], None]] = [
            lambda: os.sched_setscheduler(parent, os.SCHED_FIFO, os.sched_param(1)),
            lambda: os.sched_setaffinity(parent, [0]),
            lambda: os.setpriority(os.PRIO_PROCESS, parent, -5),
        ]
        for attempt in attempts:
            try:
                attempt()
                refused.append(False)
            except PermissionError:
                refused.append(True)
        return [realtime.find_obstacle(), *refused]

    assert in_a_fork(step) == ["", True, True, True]


@pytest.mark.parametrize("name", ["permit", "forbid"])
def test_the_limit_is_what_the_name_says(name: str) -> None:
    def step() -> list[int]:
        hard_before = resource.getrlimit(resource.RLIMIT_RTPRIO)[1]
        if name == "forbid":
            realtime.forbid()
            return [hard_before, *resource.getrlimit(resource.RLIMIT_RTPRIO)]
        kept = realtime.permit(may_keep_capability=False)
        return [hard_before, kept, *resource.getrlimit(resource.RLIMIT_RTPRIO)]

    before, *found = in_a_fork(step)
    assert found == [0, 0] if name == "forbid" else found[0] == 0 and found[1] in (before, 1)
