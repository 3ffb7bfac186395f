"""One ordeal: a platform lives through a plan, comes to rest, and its log is judged."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nats.aio.client import Client

from shared.errors import Refused
from shared.event_log import RecordedEvent
from shared.events import CATALOGUE, SubmissionFinished
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.subjects import history_of, last_token
from tests.support.damage import mounted_disk
from tests.support.people import LARGE, SMALL, add_problem
from tests.support.platform import QUICK, ROOT, Running
from tests.system.chaos import reading
from tests.system.chaos.asking import Asker, client
from tests.system.chaos.crowd import Crowd
from tests.system.chaos.faults import DISK_MIB
from tests.system.chaos.invariants import violations
from tests.system.chaos.operator import Operator
from tests.system.chaos.oracle import Oracle, too_many_failures, wrong_verdicts
from tests.system.chaos.plan import GPUS, Plan
from tests.system.chaos.reading import Kept
from tests.system.chaos.reads import unacknowledged, wrong_boards, wrong_pages, wrong_results
from tests.system.chaos.streams import wrong_streams
from tests.system.chaos.town import Town

MUTANTS = Path(__file__).parent / "mutants"
REST_S_MIN, REST_S_MAX = 60.0, 240.0
# One agent works off what the agents' deaths left over; a busy machine takes its time.
BACKLOG_S_MAX = 900.0
QUIET_S = 2.0
REBUILD = "all projections equal a rebuild"
ARCHIVED = "all projections equal a replay of the archive"
AUDITS = "all audits are clean"
VERDICTS = "every verdict and score is that of its source"
FAILURES = "the platform failed no more runs than were struck"
PAGES = "pages say what the log says"
BOARDS = "leaderboards follow from the log"
STREAMS = "streams told each event once"
ACKS = "no consumer holds an event back"
FAULTLESS = "no answer was a fault of ours"
RESULTS = "results of evaluations are those of their sources"
OPEN = ("submission", "evaluation", "job", "run")
RECEIVED = ("SubmissionReceived", "EvaluationRequested")


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
    accepted_batches: int = 0
    retries: int = 0
    waited_s_max: float = 0.0
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

    def _note(self, event: RecordedEvent) -> None:
        aggregate, kind = history_of(event.envelope.aggregate), CATALOGUE[event.envelope.type]
        if event.envelope.type in RECEIVED:
            self.received.add(aggregate)
        if event.envelope.type == "AgentQuarantined":
            self.quarantined.add(last_token(aggregate))
        elif event.envelope.type == "AgentReleased":
            self.quarantined.discard(last_token(aggregate))
        if aggregate.partition(".")[0] not in OPEN:
            return
        if kind.is_terminal:
            self.open.discard(aggregate)
        elif event.envelope.type in (*RECEIVED, "JobAssigned"):
            self.open.add(aggregate)

    async def rest(self, accepted: int, within_s: float) -> bool:
        """Until nothing is open and nothing more comes; for so long after the last event.

        Returns whether it came to that.
        """
        until = time.monotonic() + BACKLOG_S_MAX
        while time.monotonic() < min(until, self.last_at + within_s):
            is_quiet = time.monotonic() - self.last_at > QUIET_S
            if is_quiet and not self.open and len(self.received) >= accepted:
                return True
            await asyncio.sleep(0.1)
        return False


async def endure(
    plan: Plan, folder: Path, mutants: Sequence[str] = (), rest_s: float | None = None
) -> Report:
    """Live through a plan in a fresh folder, with faults in the services if any are named.

    Once `rest_s` have passed without an event nothing more is expected of the platform.
    """
    began = time.monotonic()
    running = Running(folder / "home", QUICK | _mutated(mutants))
    rest_s = rest_s or min(REST_S_MAX, REST_S_MIN + plan.seconds)
    with mounted_disk(folder / "home" / "nats", DISK_MIB) as problem:
        try:
            running.up()
            # A frozen agent must not use up the time of its run.
            changes = {LARGE: SMALL}
            add_problem(running.url, ROOT / "problems" / "identity", changes=changes)
            report = await _endure(plan, running, rest_s, has_small_disk=not problem)
        finally:
            if running.process is not None and running.process.poll() is None:
                running.stop()
    left = running.left()
    report.found["nothing outlives the platform"] = left
    report.took_s = time.monotonic() - began
    return report


def _mutated(names: Sequence[str]) -> dict[str, str]:
    """What processes are told that are to have these faults."""
    if not names:
        return {}
    return {"PYTHONPATH": str(MUTANTS), "WARPBOARD_MUTANTS": " ".join(names)}


async def _endure(plan: Plan, running: Running, rest_s: float, *, has_small_disk: bool) -> Report:
    ingest = running.environ("ingest")
    nc = await connect(running.bus_login(), "chaos")
    reader = Reader(nc)
    token = ingest["WARPBOARD_INGEST_OPERATOR_TOKEN"]
    operator = Operator(running.url, token, reader.quarantined)
    following = asyncio.create_task(reader.follow())
    try:
        await operator.prepare()
        async with Town(running, has_small_disk=has_small_disk) as town:
            crowd = Crowd(town.urls, plan.wishes, plan.batches)
            suffering = town.suffer(plan.strikes)
            await asyncio.gather(crowd.live(), suffering, operator.work(plan.acts))
            town.thaw()
            await operator.release_all()
            accepted = len(crowd.accepted) + len(crowd.accepted_batches)
            is_at_rest = await reader.rest(accepted, rest_s)
            # A stream of what is still open would not end either.
            await crowd.finish_following(rest_s if is_at_rest else 0.0)
            log = await reading.read(nc)
            return await _judge(plan, Seen(crowd, operator, town, log), nc, rest_s)
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


async def _judge(plan: Plan, seen: Seen, nc: Client, rest_s: float) -> Report:
    crowd, operator, log = seen.crowd.asked, seen.operator.asked, seen.log
    found = violations(log, seen.crowd.accepted)
    found[VERDICTS] = list(wrong_verdicts(log, Oracle.of(plan)))
    found[FAILURES] = list(too_many_failures(log, plan))
    # Beside all that follows, because it may wait for long.
    acks = asyncio.create_task(unacknowledged(nc, rest_s))
    running = seen.town.running
    async with client(running.url) as http:
        http.headers.update(running.operator | {"Warpboard-Operator": "chaos"})
        asker = Asker(http, operator)
        found[PAGES] = await wrong_pages(asker, log)
        found[RESULTS] = await wrong_results(asker, seen.crowd.accepted_batches)
        found[BOARDS] = await wrong_boards(asker, log)
        found[STREAMS] = await wrong_streams(asker, seen.crowd.streams)
    found[FAULTLESS] = crowd.faults + operator.faults
    found[REBUILD] = await _differences(running.rebuild)
    found[ARCHIVED] = await _differences(running.replay_archive)
    found[AUDITS] = [
        line for gpu in GPUS for line in await asyncio.to_thread(_audited, running, gpu)
    ]
    found[ACKS] = await acks
    ends = [one.recorded.fact for one in log if one.type == "SubmissionFinished"]
    return Report(
        plan=plan,
        struck=seen.town.struck,
        outcomes=Counter(_outcome(end) for end in ends if isinstance(end, SubmissionFinished)),
        answers=crowd.answers + operator.answers,
        refused=crowd.refused + operator.refused,
        types=Counter(one.type for one in log),
        accepted=len(seen.crowd.accepted),
        accepted_batches=len(seen.crowd.accepted_batches),
        retries=crowd.retries + operator.retries,
        waited_s_max=max(crowd.waited_s_max, operator.waited_s_max),
        restarts=_restarts(seen.town),
        found=found,
    )


def _audited(running: Running, gpu: str) -> list[str]:
    """What an audit finds wrong with a leaderboard."""
    report = running.audit("identity", gpu)
    found = [*report["findings"], *report["differences"]]
    return [f"{gpu}: {one}" for one in found]


def _outcome(end: SubmissionFinished) -> str:
    return end.outcome if end.outcome != "infra_failed" else f"infra_failed ({end.code})"


async def _differences(replay: Callable[[], dict[str, Any]]) -> list[str]:
    """The differences that a replay finds, or why it refuses its source."""
    try:
        said = await asyncio.to_thread(replay)
    except Refused as refused:
        return [str(refused)]
    return [] if said["is_equal"] else [str(said)[:2000]]


def _restarts(town: Town) -> dict[str, int]:
    rows = {row["name"]: row["restarts"] for row in town.running.state["processes"]}
    return rows | {name: extra.restarts for name, extra in town.extras.items()}
