"""Decides what is due: ends of submissions with a verdict, drafts and previews of rejudges.

First come the ports that it and the projection need: the read models and the metrics.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import msgspec

from ranker.domain.conclusion import (
    Demand,
    RunOrigin,
    RunVerdict,
    conclude_retime,
    conclude_submission,
    find_fault,
)
from ranker.domain.goals import case_floors_us
from ranker.domain.rows import DecodedEvent, LeaderboardKey
from ranker.domain.yardsticks import (
    FIRST_RUN_CODES,
    MeasuredRun,
    choose_runs,
    is_first_run,
    is_good,
    median_times,
    own_times,
    restate_scores,
)
from shared import subjects
from shared.blobs import BlobStore
from shared.clock import now
from shared.errors import Failed
from shared.event_log import Append, Appender, Conflict, EventLog, RecordedEvent
from shared.events import (
    CaseResult,
    Composition,
    Fact,
    RejudgeApplied,
    RejudgeJudged,
    RejudgePreviewed,
    Roof,
    RunCompleted,
    SubmissionFinished,
    YardstickFixed,
)
from shared.health import ScrubState
from shared.subjects import derive_id
from shared.tracing import DISCARD, Attributes, Span, SpanRecorder, run_key
from shared.verdicts import verify_verdict

logger = logging.getLogger(__name__)

DIFF_MEDIA = "application/json"
DUE_MAX = 100
# An event has up to 256 KiB; dropped ones are read again.
VERDICTS_MAX = 200
ACTOR = "service:ranker"
# The fields of a verdict that its row has as they are.
VERDICT_COLUMNS = (
    *("mode", "job", "run", "verdict", "stage", "reason"),
    *("ranking_by", "sigma_run", "tie_us", "baseline", "is_practice"),
)


class Unfoldable(Exception):  # noqa: N818
    """An event that cannot be decoded or folded; an operator must look at it."""

    def __init__(self, seq: int, reason: str) -> None:
        super().__init__(f"event {seq} cannot be folded: {reason}")
        self.seq = seq
        self.reason = reason


class BatchChange(NamedTuple):
    """What a batch changed: leaderboards, and whether a decision or a draft may be due.

    On the leaderboards in `met`, a milestone may be reached though no place changed.
    """

    boards: frozenset[LeaderboardKey]
    is_end_due: bool
    is_draft_due: bool
    met: frozenset[LeaderboardKey] = frozenset()

    def and_then(self, later: "BatchChange") -> "BatchChange":
        """The changes of this batch and the next."""
        is_end_due = self.is_end_due or later.is_end_due
        is_draft_due = self.is_draft_due or later.is_draft_due
        met = self.met | later.met
        return BatchChange(self.boards | later.boards, is_end_due, is_draft_due, met)


class PendingDecision(NamedTuple):
    """A run that waits for its decision, of a submission or of an item in a rejudge.

    `version` is the last sequence of the history that the decision is appended to; `ended_seq` is
    the event of the verdict. The `verdict` does not yet take its `origin` into account. `board` is
    the leaderboard that it may be ranked on, `problem_digest` its version's.
    """

    submission: str
    version: int
    verdict: RunVerdict
    origin: RunOrigin
    ended_seq: int
    board: LeaderboardKey
    problem_digest: str
    rejudge: str = ""
    is_retime: bool = False
    given_up: str | None = None

    @property
    def may_fix_unit(self) -> bool:
        """Whether its decision may fix the yardstick of its leaderboard."""
        verdict = self.verdict
        is_ranked = verdict.mode == "ranked" and verdict.verdict == "passed"
        return is_ranked and not verdict.fixed_us and own_times(verdict.timed) is not None

    @classmethod
    def from_row(cls, row: Mapping[str, Any], submission: str) -> "PendingDecision":
        """Make it from a row of sql/project.sql's `undecided`."""
        verdict = RunVerdict(
            **{name: row[name] for name in VERDICT_COLUMNS},
            cases=msgspec.convert(row["cases"], list[CaseResult]),
            level=row["level"] or "",
            tier=row["tier"] or "",
            floors_us=case_floors_us(msgspec.convert(row["roofs"], list[Roof]), row["gpu"]),
            doubts=msgspec.convert(row["composition"] or {}, Composition).doubts,
            fixed_us=row["fixed_us"] or {},
            stopped=row["stopped"] or "",
            over_limit=row["over_limit"] or "",
        )
        origin = RunOrigin(**{name: row[name] for name in RunOrigin._fields})
        origin = origin._replace(harness_code=row["harness_code"] or "")
        board = LeaderboardKey(row["problem"], row["gpu"], row["problem_number"])
        digest = row["problem_digest"]
        return cls(submission, row["version"], verdict, origin, row["ended_seq"], board, digest)


class DueRejudge(NamedTuple):
    """A rejudge with all drafts."""

    id: str
    version: int
    problem: str
    from_number: int
    to_number: int


class Reads(Protocol):
    """The read models, queried by the statement names of sql/read.sql."""

    async def rows(self, statement: str, **values: object) -> list[dict[str, Any]]:
        """The rows of one statement. Raises Failed."""


class ReadModelStore(Protocol):
    """The store of the read models."""

    async def checkpoint(self) -> int:
        """The sequence of the last folded event."""

    async def check_checkpoint(self, seq: int) -> None:
        """Raise Fenced if the last folded event is another one, Failed if Postgres is lost."""

    def prepare(self, batch: Sequence[DecodedEvent]) -> None:
        """Fold the batch that is written next while the one before it is still being written.

        Does nothing if rows are missing; then `write` folds it.
        """

    async def write(self, after: int, batch: Sequence[DecodedEvent]) -> BatchChange:
        """Fold a batch, all or nothing, and move the checkpoint with it.

        Raises Fenced, or Unfoldable for the first event of a batch, which the caller then splits.
        """

    async def park(self, seq: int, reason: str) -> None:
        """Record the event at which the projection stopped."""

    async def skip(self, seq: int) -> None:
        """Continue without an event. Raises Fenced."""


class DecisionStore(ReadModelStore, Reads, Protocol):
    """Read models, and what is due in them."""

    async def undecided(self, limit: int) -> Sequence[PendingDecision]:
        """The submissions that wait for a decision, oldest first."""

    async def undecided_items(self, limit: int) -> Sequence[PendingDecision]:
        """The items of rejudges that wait for a decision."""

    async def unpreviewed(self) -> Sequence[DueRejudge]:
        """The rejudges under another version that wait for their preview."""

    async def preview(self, due: DueRejudge) -> dict[str, Any]:
        """What a rejudge would change, without changing it."""


class Metrics:
    """Metrics of the projection and of the archive; this base class counts nothing."""

    def folded(self, batch: Sequence[RecordedEvent], behind: int) -> None:
        """A batch is in Postgres; `behind` events are still waiting."""

    def parked(self, events: int) -> None:
        """The number of events that cannot be folded and stop the projection: 0 or 1."""

    def retimed(self, *, is_replaced: bool) -> None:
        """A noisy run was timed again; `is_replaced` if the new result counts."""

    def archived(self, seq: int, behind: int) -> None:
        """Everything up to `seq` is archived; `behind` events are still waiting."""

    def sealed(self) -> None:
        """The chain was sealed."""

    def segmented(self, seq: int, truncated_seq: int) -> None:
        """Record how far segments go, and how far the stream was truncated behind them."""

    def scrubbed(self, state: ScrubState) -> None:
        """The state of the background scrub."""


class EventCause(NamedTuple):
    """Why an event is appended.

    Its id is derived from `effect`, by default the cause, so that repeating it changes nothing.
    `corr` is what it belongs to, by default its aggregate.
    """

    cause: str
    corr: str | None = None
    effect: str | None = None


async def append_event(
    log: EventLog, aggregate: str, fact: Fact, version: int, cause: EventCause, *first: Append
) -> int:
    """Append to a history that is still at `version`; the new version, 0 on a conflict.

    The appends in `first` are stored before it, all or none.
    """
    id_ = derive_id(cause.effect or cause.cause, type(fact).__name__)
    append = Append(aggregate, fact, version, cause.cause, cause.corr or aggregate, id_)
    try:
        return await Appender(log, ACTOR, now).append(*first, append)
    except Conflict as conflict:
        logger.info("another process appended to %s first", conflict.aggregate)
        return 0


class Conclusion(NamedTuple):
    """The decision on a run, and the yardstick that it fixes, if any."""

    end: SubmissionFinished
    fixed: YardstickFixed | None = None

    def appends(self, run: str) -> list[Append]:
        """What is stored before the decision: the fixed yardstick, for a leaderboard without."""
        if self.fixed is None:
            return []
        fixed = self.fixed
        aggregate = subjects.yardstick(fixed.problem, fixed.gpu, fixed.problem_number)
        return [Append(aggregate, fixed, 0, run, aggregate)]


def _conclusion_span(submission: str, end: SubmissionFinished, began_ns: int) -> Span:
    run = end.run or ""
    attributes: Attributes = {
        "warpboard.outcome": end.outcome,
        "warpboard.eligible": end.is_eligible,
    }
    return Span(
        *(submission, f"{run}/rank", run_key(run), "rank"),
        *(began_ns, time.time_ns(), "consumer", attributes),
    )


def choose_due(
    due: Mapping[tuple[str, int], PendingDecision], appended: AbstractSet[tuple[str, int]]
) -> list[PendingDecision]:
    """Choose what to decide now, of what is due and not `appended` yet.

    Of the runs that may fix the yardstick of a leaderboard, that is one at a time: the next one
    waits until this decision is folded.
    """
    busy = {due[key].board for key in appended if due[key].may_fix_unit}
    chosen = []
    for key, decision in due.items():
        if key in appended or (decision.may_fix_unit and decision.board in busy):
            continue
        if decision.may_fix_unit:
            busy.add(decision.board)
        chosen.append(decision)
    return chosen


@dataclass
class Decisions:
    """Decides what is due in the read models; deciding twice gives one event."""

    log: EventLog
    models: DecisionStore
    blobs: BlobStore
    metrics: Metrics
    demand: Demand
    spans: SpanRecorder = DISCARD
    appended: set[tuple[str, int]] = field(default_factory=set)
    verdicts: OrderedDict[int, RecordedEvent] = field(default_factory=OrderedDict)

    def hear(self, batch: Sequence[DecodedEvent]) -> None:
        """Remember the newest verdicts of a batch, which are decided soon."""
        for decoded in batch:
            if isinstance(decoded.fact, RunCompleted):
                self.verdicts[decoded.event.seq] = decoded.event
                if len(self.verdicts) > VERDICTS_MAX:
                    self.verdicts.popitem(last=False)

    async def ends(self) -> bool:
        """End all submissions with a verdict; True if there may be more. Raises Failed.

        Decided submissions are folded soon and then not due any more. If another event came first,
        such as a late cancellation, the version is a new one.
        """
        undecided = await self.models.undecided(DUE_MAX)
        due = {(decision.submission, decision.version): decision for decision in undecided}
        self.appended &= due.keys()
        waiting = choose_due(due, self.appended)
        stored = await asyncio.gather(*(self._conclude(decision) for decision in waiting))
        self.appended |= {
            (decision.submission, decision.version)
            for decision, is_stored in zip(waiting, stored, strict=True)
            if is_stored or not decision.may_fix_unit
        }
        return len(undecided) == DUE_MAX or not due.keys() <= self.appended

    async def drafts(self) -> bool:
        """Draft due rejudges, and preview or end them; True if there may be more. Raises Failed."""
        rejudges: dict[str, list[PendingDecision]] = {}
        items = await self.models.undecided_items(DUE_MAX)
        for item in items:
            rejudges.setdefault(item.rejudge, []).append(item)
        await asyncio.gather(*(self._judge_items(pending) for pending in rejudges.values()))
        previews = await self.models.unpreviewed()
        for due in previews:
            await self._append_preview(due)
        retimes = await self.models.rows("retimes_judged")
        for retime in retimes:
            await self._end_retime(retime["id"], retime["version"], retime["result"])
        return bool(items or previews or retimes)

    async def _conclude(self, waiting: PendingDecision) -> bool:
        """Decide on a submission; False if another process appended first."""
        began_ns = time.time_ns()
        verdict = await self._verify(waiting)
        conclusion = await self._make_conclusion(waiting, verdict)
        end = conclusion.end
        assert end.run is not None, "a conclusion names its run"
        aggregate = subjects.submission(waiting.submission)
        cause = EventCause(end.run, corr=waiting.submission)
        first = conclusion.appends(end.run)
        seq = await append_event(self.log, aggregate, end, waiting.version, cause, *first)
        if seq:
            self.spans.record(_conclusion_span(waiting.submission, end, began_ns))
        return bool(seq)

    async def _make_conclusion(self, waiting: PendingDecision, verdict: RunVerdict) -> Conclusion:
        """Conclude a run; one of the first of its leaderboard may fix the yardstick.

        The first item of a rejudge fixes it at once, because its other items are not restated. A
        noisy run that is timed again and is noisy again does not count, and fixes nothing.
        """
        end = conclude_submission(verdict, self.demand)
        if verdict.fixed_us or verdict.mode != "ranked" or not is_first_run(end):
            return Conclusion(end)
        if waiting.is_retime and not is_good(end):
            return Conclusion(end)
        values = waiting.board._asdict() | {"codes": list(FIRST_RUN_CODES)}
        rows = await self.models.rows("first_runs", **values)
        earlier = [MeasuredRun.from_row(row) for row in rows]
        newest = MeasuredRun(
            waiting.submission,
            verdict.run,
            verdict.ranking_by,
            verdict.timed,
            *(verdict.sigma_run, verdict.tie_us, verdict.tier),
        )
        may_fix_alone = is_good(end) or bool(waiting.rejudge)
        runs = choose_runs(earlier, newest, may_fix_alone=may_fix_alone)
        times_us = median_times(runs)
        if times_us is None:
            return Conclusion(end)
        fixed = YardstickFixed(
            **waiting.board._asdict(),
            problem_digest=waiting.problem_digest,
            times_us=times_us,
            runs=[run.run for run in runs],
            restated=restate_scores(earlier, times_us),
        )
        end = conclude_submission(replace(verdict, fixed_us=times_us), self.demand)
        return Conclusion(end, fixed)

    async def _judge_items(self, items: Sequence[PendingDecision]) -> None:
        """Draft the items of one rejudge in order: each append expects the one before."""
        rejudge, version = items[0].rejudge, items[0].version
        units: dict[LeaderboardKey, Mapping[str, float]] = {}
        for item in items:
            draft = await self._make_draft(item, units.get(item.board, {}))
            fact = RejudgeJudged(submission=item.submission, result=draft.end)
            cause = EventCause(rejudge, rejudge, effect=f"{rejudge}/{item.submission}")
            aggregate, first = subjects.rejudge(rejudge), draft.appends(item.verdict.run)
            version = await append_event(self.log, aggregate, fact, version, cause, *first)
            if not version:
                return
            if draft.fixed is not None:
                units[item.board] = draft.fixed.times_us

    async def _make_draft(self, item: PendingDecision, fixed_us: Mapping[str, float]) -> Conclusion:
        """Draft the result of an item; `fixed_us` is the unit that an earlier item fixed."""
        if item.given_up is None:
            verdict = await self._verify(item)
            unit_us = verdict.fixed_us or fixed_us
            return await self._make_conclusion(item, replace(verdict, fixed_us=unit_us))
        return Conclusion(
            SubmissionFinished(
                outcome="infra_failed", is_eligible=False, code="given_up", reason=item.given_up
            )
        )

    async def _end_retime(self, retime: str, version: int, draft: Any) -> None:
        """Let the result of a run that was timed again count, unless it is noisy again."""
        result = msgspec.convert(draft, SubmissionFinished)
        fact = conclude_retime(result)
        cause = EventCause(retime, corr=retime)
        if await append_event(self.log, subjects.rejudge(retime), fact, version, cause):
            self.metrics.retimed(is_replaced=isinstance(fact, RejudgeApplied))

    async def _append_preview(self, due: DueRejudge) -> None:
        preview = await self.models.preview(due)
        blob = await self.blobs.put(msgspec.json.encode(preview, order="sorted"), DIFF_MEDIA)
        fact = RejudgePreviewed(diff=blob, changed_count=preview["changed_count"])
        cause = EventCause(due.id, corr=due.id)
        await append_event(self.log, subjects.rejudge(due.id), fact, due.version, cause)

    async def _verify(self, waiting: PendingDecision) -> RunVerdict:
        """The verdict, with its fault if any, checked against the event's own bytes."""
        aggregate = subjects.run(waiting.origin.agent, waiting.origin.run)
        event = await self._read_verdict(aggregate, waiting.ended_seq)
        fact = event.fact
        assert isinstance(fact, RunCompleted), "the read models name the event of the verdict"
        fault = find_fault(
            event.envelope, fact.key, fact.environment, waiting.origin, verify_verdict
        )
        return replace(waiting.verdict, fault=fault)

    async def _read_verdict(self, aggregate: str, seq: int) -> RecordedEvent:
        """The event of a verdict, from memory or else read again. Raises Failed."""
        remembered = self.verdicts.pop(seq, None)
        if (
            remembered is not None
            and subjects.history_of(remembered.envelope.aggregate) == aggregate
        ):
            return remembered
        history = await self.log.history(aggregate, seq - 1)
        if not history or history[0].seq != seq:
            raise Failed(f"event {seq} of {aggregate} cannot be read yet")
        return history[0]
