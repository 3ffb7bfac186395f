"""A canary on a platform with several real agents, one of which becomes slow."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial

import pytest

from shared.events import AgentQuarantined, CanaryJudged, Fact
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.subjects import agent as agent_agg
from tests.support.people import HONEST, Person
from tests.support.waits import until
from tests.system.crew import LOCAL, Crew, crew_of

pytestmark = [
    pytest.mark.platform,
    # It compares what agents take for the same work.
    pytest.mark.alone,
    pytest.mark.long,
    pytest.mark.server,
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("servers"),
]

TASK = """
files:
  - {name: "submission.py", source: "@SUBMISSION@"}
  - {name: "reference.py", source: "reference.py"}
lang: "py"
config: {main: "eval.py"}
description: "Copy it."
tests: [{size: 64, seed: 1}]
benchmarks: [{size: 64, seed: 3}]
test_timeout: 60
benchmark_timeout: 60
ranked_timeout: 60
gpus: ["CPU"]
"""
REFERENCE = """
import torch


def generate_input(size, seed):
    source = torch.rand(size, generator=torch.Generator().manual_seed(seed))
    return source, torch.zeros(size)


def ref_kernel(data):
    return data[1].copy_(data[0])


def check_implementation(data, output):
    return torch.equal(output, data[0]), "it differs"
"""
# Asleep it takes as long on a busy machine as on an idle one.
STEADY = HONEST.replace("    source,", "    time.sleep(0.01)\n    source,")
STEADY = f"import time\n{STEADY}"
RATIO_MAX = 4.0
# Of a worker that is stopped for so long at a time, each call takes longer than that.
STOPPED_S, GOING_S = 0.1, 0.005
EVERY_S = 10.0
# A busy machine repeats calls for up to a minute, that of the slow agent likewise.
WITHIN_S = 150.0
SLOW, OTHER = "slow", "other"
AGENTS = (LOCAL, OTHER, SLOW)


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    """A platform with three agents and one problem."""
    problem = {"task.yml": TASK, "reference.py": REFERENCE}
    with crew_of(tmp_path_factory.mktemp("canaries"), "copied", problem) as crew:
        crew.hire(OTHER, SLOW)
        yield crew


@pytest.fixture
def ada(crew: Crew) -> Iterator[Person]:
    """A participant."""
    with Person(crew.running.url, "ada") as person:
        yield person


def told(crew: Crew, name: str) -> list[Fact]:
    """What the log says of an agent."""
    url = crew.running.environ("ranker")["WARPBOARD_RANKER_NATS_URL"]

    async def history() -> list[Fact]:
        nc = await connect(url, "a test")
        try:
            return [one.fact for one in await NatsLog(nc).history(agent_agg(name))]
        finally:
            await nc.close()

    return asyncio.run(history())


def judged(crew: Crew, name: str) -> list[CanaryJudged]:
    """An agent's canaries."""
    return [fact for fact in told(crew, name) if isinstance(fact, CanaryJudged)]


@contextmanager
def slowed(crew: Crew, name: str) -> Iterator[None]:
    """Whatever runs on an agent is stopped nearly all of the time."""
    over = threading.Event()

    def slow() -> None:
        while not over.is_set():
            workers = crew.workers(name)
            send(workers, signal.SIGSTOP)
            over.wait(STOPPED_S)
            send(workers, signal.SIGCONT)
            time.sleep(GOING_S)

    thread = threading.Thread(target=slow)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def send(workers: list[int], number: int) -> None:
    for pid in workers:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def test_an_agent_that_becomes_slow_is_out_of_service_until_it_is_released(
    crew: Crew, ada: Person
) -> None:
    """A call takes 10 ms, on the slow agent at least 100 ms; four times as long is too long.

    Beside two processes that never rest, 19 times of a sleeping kernel were 1.2 times as long as
    its sleep on average and 1.6 times at most. Even if their excess were exponential with a mean of
    0.2, a healthy canary would be four times as long with p = exp(-2.8 / 0.2) < 1 in 1,000,000, and
    the test has about ten of them. The slow agent's canary is repeated until it fails.
    """
    number = ada.submit(STEADY, "ranked", problem="copied")
    before = ada.end(number, WITHIN_S), ada.board("copied")
    assert before[0]["outcome"] == "passed", before
    choice = {"submission": number, "every_s": EVERY_S, "ratio_max": RATIO_MAX}
    crew.admin("put", "pools/CPU/canary", **choice)
    first = [until(partial(judged, crew, name), WITHIN_S)[0] for name in AGENTS]
    assert all(one.is_good for one in first), first

    with slowed(crew, SLOW):
        shown = until(
            lambda: (one := crew.agent(SLOW))["standing"] == "quarantined" and one, WITHIN_S
        )
    assert shown["standing_reason"].startswith("its canary took ")
    crew.admin("delete", "pools/CPU/canary")
    *_, bad = judged(crew, SLOW)
    assert (bad.is_good, bad.ratio > RATIO_MAX) == (False, True)
    for name in (LOCAL, OTHER):
        assert all(one.is_good for one in judged(crew, name))
        assert not any(isinstance(fact, AgentQuarantined) for fact in told(crew, name))
        crew.admin("post", f"agents/{name}/cordon")

    waiting = ada.submit(HONEST, problem="copied")
    why = until(lambda: ada.why(waiting))
    assert f"{SLOW} is in quarantine: its canary took" in why
    crew.admin("post", f"agents/{SLOW}/release")
    found = ada.end(waiting)
    assert (found["outcome"], found["agent"]) == ("passed", SLOW)
    assert crew.agent(SLOW)["standing"] == "enrolled"
    assert (ada.end(number), ada.board("copied")) == before
