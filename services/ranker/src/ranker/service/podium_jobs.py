"""Jobs for the first entries of a leaderboard: duels of tied neighbours, and confirmations.

A duel times two entries against each other. A confirmation repeats a ranked run on another agent.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import isfinite
from typing import Any, ClassVar, NamedTuple

import msgspec

from harness.hidden_sizes import GROUPS, hidden_case_name
from ranker.domain.conclusion import (
    Demand,
    Fault,
    RunOrigin,
    RunVerdict,
    compare_repetition,
    conclude_submission,
    find_fault,
    find_objection,
)
from ranker.domain.goals import PODIUM_SIZE, case_floors_us
from ranker.domain.rows import DecodedEvent, LeaderboardKey
from ranker.service.decisions import EventCause, Reads, append_event
from ranker.service.leaderboard import PlacedEntry, key_values
from shared import events, subjects
from shared.event_log import EventLog, RecordedEvent
from shared.events import (
    Blob,
    ConfirmationJudged,
    ConfirmationRequested,
    DuelJudged,
    DuelRequested,
    DuelResult,
    DuelSide,
    RejudgeItem,
    RunCompleted,
    RunStarted,
)
from shared.subjects import job_id_of, podium_duel_id, run_confirmation_id
from shared.verdicts import verify_verdict
from shared.wire import UnknownEvent, is_genuine

END_EVENTS = (events.JobFinished, events.JobGivenUp, events.JobCancelled)
# Open requests per leaderboard; further ones wait for these.
OPEN_MAX = 4
RATIO_MAX = 1e6
NOT_FRESH = "not_fresh"

Row = dict[str, Any]


class JobEnd(NamedTuple):
    """How a job ended. `fault` says why its run, if any, does not count."""

    fault: Fault | None
    run: str | None = None
    agent: str = ""
    started: RunStarted | None = None
    completed: RunCompleted | None = None


@dataclass
class PodiumJobs(ABC):
    """Requests and judges one kind of jobs; deciding twice gives one event.

    `open_requests` are those without a result, by the id of their job, and `ended` the jobs that
    ended since the last check. Either is None if it must be read again.
    """

    # The statement of sql/read.sql that reads the open requests.
    statement: ClassVar[str]
    # The events that request and judge a job, and their aggregate by the request's id.
    kinds: ClassVar[tuple[type[events.ComparisonFact], ...]]
    aggregate: ClassVar["staticmethod[[str], str]"]

    log: EventLog
    reads: Reads
    demand: Demand
    is_on: bool = True
    requested: set[str] = field(default_factory=set)
    open_requests: dict[str, Row] | None = None
    ended: set[str] | None = None

    @abstractmethod
    async def request(self, board: LeaderboardKey, placed: Sequence[PlacedEntry]) -> None:
        """Request the missing jobs for the first places of a leaderboard. Raises Failed."""

    @abstractmethod
    def make_judgement(self, job: str, end: JobEnd, request: Row) -> events.Fact:
        """The judgement that follows from the end of a job."""

    def hear(self, batch: Sequence[DecodedEvent]) -> set[LeaderboardKey]:
        """Note requests, ends and judgements; return the leaderboards to check again."""
        boards = set()
        for decoded in batch:
            fact = decoded.fact
            if isinstance(fact, END_EVENTS) and self.ended is not None:
                self.ended.add(decoded.id)
            if isinstance(fact, self.kinds) and is_genuine(decoded.event.envelope):
                self.open_requests = None
                boards.add(LeaderboardKey(fact.problem, fact.gpu, fact.problem_number))
        return boards

    def forget(self) -> None:
        """Check every open job again: any may have ended unnoticed."""
        self.open_requests, self.ended = None, None

    async def judge(self) -> None:
        """Judge the requests whose job is over. Raises Failed."""
        if self.open_requests is None:
            rows = await self.reads.rows(self.statement)
            self.open_requests = {job_id_of(row["id"]): row for row in rows}
        requests = self.open_requests
        for job in sorted(requests.keys() if self.ended is None else self.ended & requests.keys()):
            end, request = await read_end(self.log, self.reads, job), requests[job]
            if end is not None:
                fact, aggregate = (
                    self.make_judgement(job, end, request),
                    self.aggregate(request["id"]),
                )
                cause = EventCause(request["id"])
                await append_event(self.log, aggregate, fact, request["seq"], cause)
        self.ended = set()

    async def append_request(self, id_: str, fact: events.Fact) -> None:
        """Append a request, once. Raises Failed."""
        await append_event(self.log, self.aggregate(id_), fact, 0, EventCause(id_))
        self.requested.add(id_)

    def can_request(self, id_: str, open_count: int) -> bool:
        """Whether a job was not requested yet and there is room for it."""
        return id_ not in self.requested and open_count < OPEN_MAX


@dataclass
class Duels(PodiumJobs):
    """Duels of tied neighbours on a podium."""

    statement = "duels_open"
    kinds = (DuelRequested, DuelJudged)
    aggregate = staticmethod(subjects.duel)

    async def request(self, board: LeaderboardKey, placed: Sequence[PlacedEntry]) -> None:
        """Request duels of podium neighbours that share a rank, once for each pair.

        Does nothing while no agent of the GPU type takes duels. Raises Failed.
        """
        pairs = [
            (first.row, second.row)
            for first, second in pairwise(placed[:PODIUM_SIZE])
            if first.place.rank == second.place.rank and first.row["source"] != second.row["source"]
        ]
        if not pairs or not self.is_on:
            return
        if not await self.reads.rows("duel_agents", gpu=board.gpu):
            return
        earlier = await self.reads.rows("duels_of_board", **key_values(board))
        known_pairs = {frozenset((row["first_source"], row["second_source"])) for row in earlier}
        open_count = sum(row["judged_seq"] is None for row in earlier)
        for first, second in pairs:
            sources = first["source"], second["source"]
            id_ = podium_duel_id(board.problem, board.problem_number, board.gpu, sources)
            if frozenset(sources) in known_pairs or not self.can_request(id_, open_count):
                continue
            fact = await self._make_request(board, first["submission"], second["submission"])
            if fact is not None:
                await self.append_request(id_, fact)
                open_count += 1

    async def _make_request(
        self, board: LeaderboardKey, first: str, second: str
    ) -> DuelRequested | None:
        rows = await self.reads.rows(
            "duel_sides", submissions=[first, second], number=board.problem_number
        )
        sides = {row["id"]: row for row in rows}
        if first not in sides or second not in sides:
            return None
        return DuelRequested(
            **board._asdict(),
            problem_digest=sides[first]["digest"],
            first=_make_side(sides[first]),
            second=_make_side(sides[second]),
            reason="tied neighbours among the first three",
        )

    def make_judgement(self, _job: str, end: JobEnd, request: Row) -> DuelJudged:
        """The judgement of a duel from the end of its job."""
        board = {name: request[name] for name in LeaderboardKey._fields}
        fault = end.fault or self._find_fault(end)
        if fault is not None:
            return DuelJudged(**board, run=end.run, code=fault.code, reason=fault.reason)
        assert end.completed is not None, "a job without a fault has a verdict"
        completed = end.completed
        if completed.verdict != "passed":
            code, reason = completed.verdict, completed.reason
            return DuelJudged(**board, run=end.run, code=code, reason=reason)
        return DuelJudged(**board, run=end.run, result=completed.duel, code="judged")

    def _find_fault(self, end: JobEnd) -> Fault | None:
        """Why the verdict, or a verdict of this machine, does not count here."""
        level, tier = (end.started.level, end.started.tier) if end.started else ("", "")
        objected = find_objection(self.demand, level, tier, ())
        if objected is not None:
            return Fault(*objected)
        completed = end.completed
        if completed and completed.verdict == "passed" and not is_sound(completed.duel):
            return Fault("bad_result", "the run passed, but its duel has no valid result")
        return None


def is_sound(result: DuelResult | None) -> bool:
    """Whether a result is plausible: a winner, and a ratio within its interval.

    >>> is_sound(DuelResult(winner="A", ratio=0.9, interval=(0.8, 0.95)))
    True
    >>> is_sound(DuelResult(winner="A", ratio=1.1, interval=(1.0, 1.2)))
    False
    """
    if result is None or result.ratio is None or result.interval is None or result.failed:
        return False
    low, high = result.interval
    if not all(isfinite(bound) and 1 / RATIO_MAX < bound < RATIO_MAX for bound in (low, high)):
        return False
    faster = {"A": high < 1, "B": low > 1, "equal": True}
    return low <= result.ratio <= high and faster.get(result.winner, False)


def _make_side(row: Row) -> DuelSide:
    fields = {name: row[name] for name in ("number", "account", "name")}
    source, pooling_source = _make_source(row), row["pooling_source"]
    normal_digest = "" if pooling_source == source.digest else pooling_source
    return DuelSide(submission=row["id"], source=source, normal_digest=normal_digest, **fields)


@dataclass
class Confirmations(PodiumJobs):
    """Repetitions of a podium's ranked runs on another agent."""

    statement = "confirmations_open"
    kinds = (ConfirmationRequested, ConfirmationJudged)
    aggregate = staticmethod(subjects.confirmation)

    async def request(self, board: LeaderboardKey, placed: Sequence[PlacedEntry]) -> None:
        """Request a confirmation for each run on a podium that another agent can repeat.

        Raises Failed.
        """
        if not placed or not self.is_on:
            return
        submissions = [entry.row["submission"] for entry in placed[:PODIUM_SIZE]]
        runs = await self.reads.rows(
            "runs_to_confirm", submissions=submissions, number=board.problem_number
        )
        earlier = await self.reads.rows("confirmations_of_board", **key_values(board))
        known_ids = {row["id"] for row in earlier}
        open_count = sum(row["judged_seq"] is None for row in earlier)
        for row in runs:
            id_ = run_confirmation_id(row["run"])
            if id_ in known_ids or not self.can_request(id_, open_count):
                continue
            fact = ConfirmationRequested(
                **board._asdict(),
                problem_digest=row["digest"],
                item=make_rejudge_item(row, board.gpu),
                **{name: row[name] for name in ("run", "agent", "score_us", "yardstick_us")},
            )
            await self.append_request(id_, fact)
            open_count += 1

    def make_judgement(self, job: str, end: JobEnd, request: Row) -> ConfirmationJudged:
        """The judgement of a confirmation from the end of its job."""
        fields = {name: request[name] for name in LeaderboardKey._fields} | {"agent": end.agent}
        if end.completed is None:
            assert end.fault is not None, "a job without a fault has a verdict"
            return ConfirmationJudged(**fields, code=end.fault.code, reason=end.fault.reason)
        is_fresh = end.completed.verdict != "passed" or _has_drawn_sizes(end.completed)
        if request["is_fresh"] and not is_fresh:
            reason = "the contest demands fresh hidden sizes: the problem's newest version has none"
            return ConfirmationJudged(**fields, code=NOT_FRESH, reason=reason)
        result = self._conclude(job, end, end.completed, request)
        compared = compare_repetition(request["score_us"], request["yardstick_us"], result)
        if compared is None:
            return ConfirmationJudged(**fields, code=result.code, reason=result.reason)
        return ConfirmationJudged(
            **fields, **compared._asdict(), reason=result.reason, result=result
        )

    def _conclude(
        self, job: str, end: JobEnd, completed: RunCompleted, confirmation: Row
    ) -> events.SubmissionFinished:
        """The result that the run would have given its submission."""
        roofs = msgspec.convert(confirmation["roofs"], list[events.Roof])
        verdict = RunVerdict(
            mode="ranked",
            job=job,
            run=end.run or "",
            verdict=completed.verdict,
            stage=completed.stage,
            reason=completed.reason,
            cases=completed.cases,
            ranking_by=confirmation["ranking_by"],
            level=end.started.level if end.started else "",
            tier=end.started.tier if end.started else "",
            sigma_run=completed.sigma_run,
            tie_us=completed.tie_us,
            fault=end.fault,
            floors_us=case_floors_us(roofs, confirmation["gpu"]),
            fixed_us=confirmation["fixed_us"] or {},
            over_limit=completed.over_limit,
        )
        return conclude_submission(verdict, self.demand)


def _has_drawn_sizes(completed: RunCompleted) -> bool:
    """Whether a run drew hidden sizes; the public cases of its hidden check are none."""
    first_names = {hidden_case_name(group, 1) for group in GROUPS}
    return any(case.name in first_names for case in completed.cases)


def make_rejudge_item(row: Row, gpu: str) -> RejudgeItem:
    """A submission to run again, from a row of sql/read.sql."""
    fields = {name: row[name] for name in ("submission", "account", "name")}
    return RejudgeItem(gpu=gpu, source=_make_source(row), **fields)


def _make_source(row: Row) -> Blob:
    return Blob(digest=row["source"], bytes=row["source_bytes"], media=row["source_media"])


async def read_end(log: EventLog, reads: Reads, job: str) -> JobEnd | None:
    """Read how a job ended from the log's own bytes; None while it is open. Raises Failed."""
    facts = [event.fact for event in await log.history(subjects.job(job)) if _is_readable(event)]
    end = next((fact for fact in facts if isinstance(fact, END_EVENTS)), None)
    if end is None:
        return None
    if not isinstance(end, events.JobFinished):
        return JobEnd(Fault("given_up", end.reason))
    leases = (fact for fact in facts if isinstance(fact, events.JobLeased))
    agent = next(lease.agent for lease in leases if lease.run == end.run)
    return await _read_run(log, reads, job, agent, end.run)


async def _read_run(log: EventLog, reads: Reads, job: str, agent: str, run: str) -> JobEnd:
    events_of_run = await log.history(subjects.run(agent, run))
    history = [event for event in events_of_run if _is_readable(event)]
    order = _find_first(history, events.JobAssigned)
    if order is None or order.fact.job != job:
        return JobEnd(Fault("no_run", "its run belongs to another job"), run, agent)
    # An agent's events before the order of the run are ignored.
    history = [event for event in history if event.seq > order.seq]
    started, completed = _find_first(history, RunStarted), _find_first(history, RunCompleted)
    if completed is None:
        return JobEnd(Fault("no_run", "its run has no verdict"), run, agent)
    (keys,) = await reads.rows("agent_then", agent=agent, seq=completed.seq)
    origin = RunOrigin(
        agent=agent,
        run=run,
        token=order.seq,
        sign_key=keys["sign_key"],
        key_commit=started.fact.key_commit if started else None,
        harness_code=keys["harness_code"] or "",
    )
    verdict = completed.fact
    fault = find_fault(completed.envelope, verdict.key, verdict.environment, origin, verify_verdict)
    return JobEnd(fault, run, agent, started.fact if started else None, verdict)


def _is_readable(event: RecordedEvent) -> bool:
    try:
        return is_genuine(event.envelope) and event.fact is not None
    except (msgspec.MsgspecError, UnknownEvent):
        return False


def _find_first(history: Iterable[RecordedEvent], kind: type[Any]) -> Any:
    return next((event for event in history if event.envelope.type == kind.__name__), None)
