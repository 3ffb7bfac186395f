"""One ordeal: a platform lives through a plan, comes to rest, and its log is judged."""

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nats.aio.client import Client

from shared.event_log import Recorded
from shared.events import CATALOGUE, SubmissionFinished
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.subjects import history_of, last_token
from tests.support.people import add_problem
from tests.support.platform import ROOT, Running
from tests.system.chaos import reading
from tests.system.chaos.crowd import Crowd
from tests.system.chaos.invariants import violations
from tests.system.chaos.operator import Operator
from tests.system.chaos.plan import Plan
from tests.system.chaos.reading import Kept
from tests.system.chaos.town import Town

REST_S_MIN, REST_S_MAX = 60.0, 240.0
# One agent works off what the agents' deaths left over; a busy machine takes its time.
BACKLOG_S_MAX = 900.0
QUIET_S = 2.0
REBUILD = "all projections equal a rebuild"
FAULTLESS = "no answer was a fault of ours"
OPEN = ("submission", "job", "run")


@dataclass
class Report:
    """What happened, and what was found wrong."""

    plan: Plan
    struck: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    types: Counter[str] = field(default_factory=Counter)
    accepted: int = 0
    retries: int = 0
    restarts: dict[str, int] = field(default_factory=dict)
    took_s: float = 0.0
    found: dict[str, list[str]] = field(default_factory=dict)

    @property
    def is_sound(self) -> bool:
        """Whether every invariant held."""
        return not any(self.found.values())


class Reader:
    """Follows the log through everything, as a projection would."""

    def __init__(self, nc: Client) -> None:
        self.log = NatsLog(nc)
        self.open: set[str] = set()
        self.received: set[str] = set()
        self.quarantined: set[str] = set()
        self.last_at = time.monotonic()

    async def follow(self) -> None:
        """Know what is open, for ever."""
        feed = self.log.follow(0)
        while True:
            for event in await feed.take():
                self._note(event)
            self.last_at = time.monotonic()

    def _note(self, event: Recorded) -> None:
        agg, kind = history_of(event.envelope.agg), CATALOGUE[event.envelope.type]
        if kind is CATALOGUE["SubmissionReceived"]:
            self.received.add(agg)
        if event.envelope.type == "AgentQuarantined":
            self.quarantined.add(last_token(agg))
        elif event.envelope.type == "AgentReleased":
            self.quarantined.discard(last_token(agg))
        if agg.partition(".")[0] not in OPEN:
            return
        if kind.is_terminal:
            self.open.discard(agg)
        elif event.envelope.type in ("SubmissionReceived", "JobAssigned"):
            self.open.add(agg)

    async def rest(self, accepted: int, within_s: float) -> None:
        """Until nothing is open and nothing more comes; for so long after the last event."""
        until = time.monotonic() + BACKLOG_S_MAX
        while time.monotonic() < min(until, self.last_at + within_s):
            is_quiet = time.monotonic() - self.last_at > QUIET_S
            if is_quiet and not self.open and len(self.received) >= accepted:
                return
            await asyncio.sleep(0.1)


async def endure(plan: Plan, folder: Path) -> Report:
    """Live through a plan in a fresh folder."""
    began = time.monotonic()
    running = Running(folder / "home")
    try:
        running.up()
        add_problem(running.url, ROOT / "problems" / "identity")
        report = await _endure(plan, running)
    finally:
        if running.process is not None and running.process.poll() is None:
            running.stop()
    left = running.left()
    report.found["nothing outlives the platform"] = left
    report.took_s = time.monotonic() - began
    return report


async def _endure(plan: Plan, running: Running) -> Report:
    ingest = running.environ("ingest")
    nc = await connect(ingest["WARPBOARD_INGEST_NATS_URL"], "chaos")
    reader, crowd = Reader(nc), Crowd(running.url, plan.wishes)
    token = ingest["WARPBOARD_INGEST_OPERATOR_TOKEN"]
    operator = Operator(running.url, token, reader.quarantined)
    following = asyncio.create_task(reader.follow())
    try:
        await operator.prepare()
        async with Town(running) as town:
            suffering = town.suffer(plan.strikes)
            await asyncio.gather(crowd.live(), suffering, operator.work(plan.acts))
            town.thaw()
            await operator.release_all()
            rest_s = min(REST_S_MAX, REST_S_MIN + plan.seconds)
            await reader.rest(len(crowd.accepted), rest_s)
            log = await reading.read(nc)
            return await _judge(plan, Seen(crowd, operator, town, log))
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await nc.close()


@dataclass
class Seen:
    """Who was there, and what was written."""

    crowd: Crowd
    operator: Operator
    town: Town
    log: list[Kept]


async def _judge(plan: Plan, seen: Seen) -> Report:
    crowd, operator, log = seen.crowd.asked, seen.operator.asked, seen.log
    found = violations(log, seen.crowd.accepted)
    found[FAULTLESS] = crowd.faults + operator.faults
    found[REBUILD] = _differences(await asyncio.to_thread(seen.town.running.rebuild))
    ends = [one.recorded.fact for one in log if one.type == "SubmissionFinished"]
    return Report(
        plan=plan,
        struck=seen.town.struck,
        outcomes=Counter(_outcome(end) for end in ends if isinstance(end, SubmissionFinished)),
        answers=crowd.answers + operator.answers,
        refused=crowd.refused + operator.refused,
        types=Counter(one.type for one in log),
        accepted=len(seen.crowd.accepted),
        retries=crowd.retries + operator.retries,
        restarts=_restarts(seen.town),
        found=found,
    )


def _outcome(end: SubmissionFinished) -> str:
    return end.outcome if end.outcome != "infra_failed" else f"infra_failed ({end.code})"


def _differences(said: dict[str, Any]) -> list[str]:
    return [] if said["is_equal"] else [str(said)[:2000]]


def _restarts(town: Town) -> dict[str, int]:
    rows = {row["name"]: row["restarts"] for row in town.running.state["processes"]}
    return rows | {name: extra.restarts for name, extra in town.extras.items()}
