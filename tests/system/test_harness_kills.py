"""The harness's own processes are killed in the middle of a run."""

import os
import signal
import time
from collections.abc import Iterator

import pytest

from harness.sandbox.linux import parent_of
from tests.support.people import Person
from tests.support.platform import Running
from tests.support.processes import descendants

pytestmark = [pytest.mark.platform, pytest.mark.long, pytest.mark.server]

SUPERVISOR, RUN, ZYGOTE, WORKER = "supervisor", "run", "zygote", "worker"
UNHURRIED = """
import time


def custom_kernel(data):
    time.sleep(0.4)
    data[-1].copy_(data[0])
    return data[-1]
"""


@pytest.fixture
def ada(platform_to_kill: Running) -> Iterator[Person]:
    """A participant of the platform that comes back from every kill."""
    with Person(platform_to_kill.url, "ada") as person:
        yield person


def find_process(agent: int, name: str) -> int:
    """A part of the harness in the only run of an agent; forks keep the command of their parent."""
    supervisors = list(descendants(agent, "harness.supervisor"))
    # The newest is the run; idle supervisors have none.
    run = supervisors[-1]
    supervisor = parent_of(run)
    zygotes = list(descendants(supervisor, "harness.zygote"))
    # The newest is the worker, last in its box.
    return {SUPERVISOR: supervisor, RUN: run, ZYGOTE: zygotes[0], WORKER: zygotes[-1]}[name]


def kill_in_the_middle(platform: Running, ada: Person, number: int, victim: str) -> None:
    """Wait until the run is being checked, then SIGKILL a part of the harness."""
    agent = platform.pid("gpu-agent")
    assert agent is not None
    until = time.monotonic() + 120
    while True:
        seen = ada.http.get(f"/v1/submissions/{number}").json()
        if (seen.get("progress") or {}).get("stage") == "check":
            break
        assert time.monotonic() < until, seen
        time.sleep(0.05)
    os.kill(find_process(agent, victim), signal.SIGKILL)


@pytest.mark.parametrize("victim", [SUPERVISOR, RUN, ZYGOTE])
def test_a_killed_part_of_the_harness_is_our_failure_and_the_job_is_run_again(
    platform_to_kill: Running, ada: Person, victim: str
) -> None:
    number = ada.submit(UNHURRIED)
    kill_in_the_middle(platform_to_kill, ada, number, victim)
    found = ada.end(number)
    types = [one["type"] for one in found["timeline"]]
    assert found["outcome"] == "passed"
    assert found["attempt"] == 2
    assert types.index("RunFailed") < types.index("JobRequeued") < types.index("RunCompleted")


def test_an_agent_that_is_killed_with_two_runs_loses_neither(
    platform_to_kill: Running, ada: Person
) -> None:
    with Person(platform_to_kill.url, "grace") as grace:
        people = (ada, grace)
        numbers = [person.submit(UNHURRIED) for person in people]
        until = time.monotonic() + 120
        while not all(
            person.http.get(f"/v1/submissions/{number}").json().get("progress")
            for person, number in zip(people, numbers, strict=True)
        ):
            assert time.monotonic() < until, "both runs never went on at once"
            time.sleep(0.05)
        agent = platform_to_kill.pid("gpu-agent")
        assert agent is not None
        os.kill(agent, signal.SIGKILL)
        ended = [person.end(number) for person, number in zip(people, numbers, strict=True)]
    for found in ended:
        assert (found["outcome"], found["attempt"]) == ("passed", 2), found
    for found in ended:
        types = [one["type"] for one in found["timeline"]]
        assert [types.count(name) for name in ("RunStarted", "JobExpired", "RunCompleted")] == [
            2, 1, 1
        ]  # fmt: skip


def test_a_killed_worker_is_the_submissions_own_crash(
    platform_to_kill: Running, ada: Person
) -> None:
    number = ada.submit(UNHURRIED)
    kill_in_the_middle(platform_to_kill, ada, number, WORKER)
    found = ada.end(number)
    assert (found["verdict"], found["attempt"]) == ("crashed", 1)
