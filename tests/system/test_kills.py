"""Every process is killed at every step of a submission's life, and nothing is lost or doubled."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

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

    async def until(self, submission: str, *types: str) -> RecordedEvent:
        """The first event of such a type that is about the submission."""
        async with asyncio.timeout(STEP_S_MAX):
            while True:
                for event in self.seen:
                    if event.envelope.corr == submission and event.envelope.type in types:
                        return event
                self.seen += await self.feed.take()

    async def received(self, number: int) -> str:
        """The submission of a number."""
        async with asyncio.timeout(STEP_S_MAX):
            while len(self.seen) < number:
                self.seen += await self.feed.take()
        return self.seen[number - 1].envelope.corr


@asynccontextmanager
async def witness(running: Running) -> AsyncIterator[Witness]:
    """A reader of the platform's own log."""
    nc = await connect(running.environ("ranker")["WARPBOARD_RANKER_NATS_URL"], "witness")
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
    lost = {name: end for name, end in ends.items() if end.outcome != "passed"}
    # A run that had begun on a killed agent is never repeated blindly.
    assert set(lost) <= {"gpu-agent"}, lost
    assert {end.outcome for end in lost.values()} <= {"infra_failed"}
    assert_each_ended_once(log.seen)


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
