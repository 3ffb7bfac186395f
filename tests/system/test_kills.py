"""Every process is killed at every step of a submission's life, and nothing is lost or doubled."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx
import pytest

from shared import subjects
from shared.event_log import Feed, RecordedEvent
from shared.events import CATALOGUE, SubmissionFinished
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from tests.support.people import HONEST, Person
from tests.support.platform import Running

pytestmark = [
    pytest.mark.platform,
    pytest.mark.long,
    pytest.mark.server,
    pytest.mark.timeout(240),
    # nats-py drops a half-open socket unclosed when its server is killed.
    pytest.mark.filterwarnings("ignore:.*StreamWriter:pytest.PytestUnraisableExceptionWarning"),
]

STEP_S_MAX = 60
# Its run is certainly not over when its agent is killed.
SLOW = HONEST.replace("    source,", "    time.sleep(0.4)\n    source,")
SLOW = f"import time\n{SLOW}"
PROCESSES = ("nats-server", "Postgres", "ingest", "ranker", "scheduler", "gpu-agent")
# What ranks a run that is over.
RANKING = {"nats-server", "Postgres", "ranker"}
STEPS = (
    "SubmissionReceived",
    "JobAssigned",
    "RunStarted",
    "RunCompleted",
)
TERMINAL = {
    name for name, kind in CATALOGUE.items() if kind.is_terminal and kind.aggregate == "submission"
}


@dataclass
class Witness:
    """Reads the log from outside, and remembers all of it."""

    feed: Feed
    seen: list[RecordedEvent]

    async def until(self, submission: str, *types: str, count: int = 1) -> RecordedEvent:
        """The first event of such a type that is about the submission, or the `count`th."""
        async with asyncio.timeout(STEP_S_MAX):
            while True:
                found = self.about(submission, *types)
                if len(found) >= count:
                    return found[count - 1]
                self.seen += await self.feed.take()

    def about(self, submission: str, *types: str) -> list[RecordedEvent]:
        """The events of such types about the submission that were read so far."""
        return [
            event
            for event in self.seen
            if event.envelope.corr == submission and event.envelope.type in types
        ]

    async def received(self, number: int) -> str:
        """The submission of a number."""
        async with asyncio.timeout(STEP_S_MAX):
            while len(self.seen) < number:
                self.seen += await self.feed.take()
        return self.seen[number - 1].envelope.corr


@asynccontextmanager
async def witness(running: Running) -> AsyncIterator[Witness]:
    """A reader of the platform's own log."""
    nc = await connect(running.bus_login(), "witness")
    feed = NatsLog(nc).follow(0)
    try:
        yield Witness(feed, [])
    finally:
        with contextlib.suppress(Exception):
            await feed.close()
        await nc.close()


def kill(running: Running, name: str) -> None:
    """SIGKILL, as an operator's mistake or the kernel's memory killer would."""
    pid = running.pid(name)
    if pid is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def allow_one_test(running: Running, participant: str) -> None:
    """Give a participant a quota of one test an hour."""
    quota = {"bucket": "identity.CPU.test", "participant": participant, "limit": 1}
    body = quota | {"window_s": 3600, "reason": "a test"}
    url = f"{running.url}/v1/admin/quota"
    assert httpx.put(url, json=body, headers=running.operator).is_success


@pytest.mark.feature("N15")
@pytest.mark.parametrize("step", STEPS)
async def test_whatever_is_killed_whenever_each_submission_ends_once(
    platform_to_kill: Running, step: str
) -> None:
    ends: dict[str, SubmissionFinished] = {}
    async with witness(platform_to_kill) as log:
        with Person(platform_to_kill.url, "ada") as ada:
            for name in PROCESSES:
                # A ranked run takes longer: only where it matters.
                is_ranking = step == "RunCompleted" and name in RANKING
                number = ada.submit(HONEST, mode="ranked" if is_ranking else "test")
                submission = await log.received(number)
                await log.until(submission, step)
                kill(platform_to_kill, name)
                end = (await log.until(submission, *TERMINAL)).fact
                assert isinstance(end, SubmissionFinished)
                ends[name] = end
                assert ada.end(number)["outcome"] == end.outcome
    assert {name: end.outcome for name, end in ends.items()} == dict.fromkeys(PROCESSES, "passed")
    assert_each_ended_once(log.seen)


async def test_a_run_whose_agent_is_killed_is_run_again_and_counts_once(
    platform_to_kill: Running,
) -> None:
    async with witness(platform_to_kill) as log:
        with Person(platform_to_kill.url, "grace") as grace:
            number = grace.submit(SLOW)
            submission = await log.received(number)
            await log.until(submission, "RunStarted")
            kill(platform_to_kill, "gpu-agent")
            found = grace.end(number)
            # A run that had not begun when the agent was back is given again, too.
            assert found["outcome"] == "passed"
            assert found["attempt"] >= 2
            await log.until(submission, *TERMINAL)
    verdicts = log.about(submission, "RunCompleted")
    assert len(log.about(submission, "RunStarted")) == 2
    assert [subjects.last_token(event.envelope.aggregate) for event in verdicts] == [found["run"]]


async def test_a_submission_whose_agent_is_killed_twice_ends_and_costs_nothing(
    platform_to_kill: Running,
) -> None:
    allow_one_test(platform_to_kill, "linus")
    async with witness(platform_to_kill) as log:
        with Person(platform_to_kill.url, "linus") as linus:
            number = linus.submit(SLOW)
            submission = await log.received(number)
            for count in (1, 2):
                await log.until(submission, "RunStarted", count=count)
                kill(platform_to_kill, "gpu-agent")
            found = linus.end(number)
            assert (found["outcome"], found["code"]) == ("infra_failed", "agents_lost")
            assert "failed twice during the run" in found["reason"]
            assert "so it is not run again; this costs no quota" in found["reason"]
            await log.until(submission, "QuotaReturned")
            # His quota allows another one, and the agent is not in quarantine.
            assert linus.end(linus.submit(HONEST))["outcome"] == "passed"
    assert len(log.about(submission, "JobAssigned")) == 2
    assert log.about(submission, "RunCompleted") == []


def assert_each_ended_once(events: list[RecordedEvent]) -> None:
    """Every history that began has one terminal event; sequences have no hole."""
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    received = [e.envelope.aggregate for e in events if e.envelope.type == "SubmissionReceived"]
    ended = [e.envelope.aggregate for e in events if e.envelope.type in TERMINAL]
    assert sorted(received) == sorted(ended)
    assert len(received) == len(set(received))
    assert len(received) >= len(PROCESSES)


def test_the_leaderboards_equal_their_rebuild_after_all_kills(platform_to_kill: Running) -> None:
    assert platform_to_kill.rebuild()["is_equal"] is True
