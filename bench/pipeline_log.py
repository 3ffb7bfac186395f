"""What the log tells of a measurement: who is over, meanwhile, and where the time went, after."""

import asyncio
import statistics
import time
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any, NamedTuple

from shared.nats.event_log import NatsLog

ENDS = frozenset({"SubmissionFinished"})
# What is between these, in this order, is where the time goes.
STEPS = (
    "SubmissionReceived",
    "JobLeased",
    "RunStarted",
    "RunCompleted",
    "SubmissionFinished",
)
END_S_MAX = 60.0


@dataclass
class Witness:
    """Reads of submissions alone, so as to cost little, and remembers when each was over."""

    ends: int = 0
    ended: dict[str, float] = field(default_factory=dict)
    waiting: dict[str, asyncio.Future[float]] = field(default_factory=dict)
    bad: dict[str, int] = field(default_factory=dict)

    async def watch(self, log: NatsLog, after: int) -> None:
        """Read on for ever."""
        branch = log.branch(after, "submission.>")
        while True:
            for event in await branch.take():
                if event.envelope.type in ENDS:
                    self._end(event.envelope.corr, event.fact)

    def _end(self, submission: str, fact: Any) -> None:
        self.ends += 1
        if fact.code != "ranked":
            self.bad[fact.code] = self.bad.get(fact.code, 0) + 1
        waiting = self.waiting.pop(submission, None)
        if waiting is None:
            self.ended[submission] = time.perf_counter()
        elif not waiting.done():
            waiting.set_result(time.perf_counter())

    async def end(self, submission: str) -> float:
        """The instant at which a submission was over."""
        if submission in self.ended:
            return self.ended.pop(submission)
        future: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self.waiting[submission] = future
        async with asyncio.timeout(END_S_MAX):
            await future
        return future.result()


class Story(NamedTuple):
    """The mean size of the events in a stretch of the log; median and 99th percentile of a step."""

    bytes_mean: int
    steps_ms: list[float]
    slow_steps_ms: list[float]


async def read_back(log: NatsLog, after: int, until: int) -> Story:
    """Read a stretch of the log once nothing is measured any more."""
    feed, size = log.follow(after), 0
    instants: dict[str, list[datetime]] = {}
    at = after
    while at < until:
        for event in await feed.take():
            at, size = event.seq, size + len(event.body)
            if event.envelope.type in STEPS:
                instants.setdefault(event.envelope.corr, []).append(event.envelope.at)
    await feed.close()
    whole = [times for times in instants.values() if len(times) == len(STEPS)]
    apart = [[1e3 * (b - a).total_seconds() for a, b in pairwise(times)] for times in whole]
    steps = [sorted(times) for times in zip(*apart, strict=True)]
    return Story(
        size // max(1, at - after),
        [statistics.median(times) for times in steps],
        [times[int(len(times) * 0.99)] for times in steps],
    )
