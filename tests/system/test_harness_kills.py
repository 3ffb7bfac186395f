"""The harness's own processes are killed in the middle of a run."""

import os
import signal
import time
from collections.abc import Iterator

import pytest

from tests.support.people import Person
from tests.support.platform import Running
from tests.support.processes import descendants

pytestmark = [pytest.mark.platform, pytest.mark.long, pytest.mark.server]

# Which of the processes with a word in their command, the oldest first: forks keep the command
# of their parent, and the newest of the zygote's is the worker, last in its box.
SUPERVISOR = ("harness.supervisor", 0)
RUN = ("harness.supervisor", 1)
ZYGOTE = ("harness.zygote", 0)
WORKER = ("harness.zygote", -1)
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


def kill_in_the_middle(
    platform: Running, ada: Person, number: int, victim: tuple[str, int]
) -> None:
    """Wait until the run is being checked, then SIGKILL the nth with a word in its command."""
    agent = platform.pid("gpu-agent")
    assert agent is not None
    until = time.monotonic() + 120
    while True:
        seen = ada.http.get(f"/v1/submissions/{number}").json()
        if (seen.get("progress") or {}).get("stage") == "check":
            break
        assert time.monotonic() < until, seen
        time.sleep(0.05)
    word, place = victim
    victims = [*descendants(agent, word)]
    assert victims, f"no process with {word} below the agent"
    os.kill(victims[place], signal.SIGKILL)


@pytest.mark.parametrize("victim", [SUPERVISOR, RUN, ZYGOTE], ids=["supervisor", "run", "zygote"])
def test_a_killed_part_of_the_harness_is_our_failure_and_the_job_is_run_again(
    platform_to_kill: Running, ada: Person, victim: tuple[str, int]
) -> None:
    number = ada.submit(UNHURRIED)
    kill_in_the_middle(platform_to_kill, ada, number, victim)
    found = ada.end(number)
    types = [one["type"] for one in found["timeline"]]
    assert found["outcome"] == "passed"
    assert found["attempt"] == 2
    assert types.index("RunFailed") < types.index("JobRequeued") < types.index("RunCompleted")


def test_a_killed_worker_is_the_submissions_own_crash(
    platform_to_kill: Running, ada: Person
) -> None:
    number = ada.submit(UNHURRIED)
    kill_in_the_middle(platform_to_kill, ada, number, WORKER)
    found = ada.end(number)
    assert (found["verdict"], found["attempt"]) == ("crashed", 1)
