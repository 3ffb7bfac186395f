"""Decides what is due: ends of submissions with a verdict, drafts and previews of rejudges."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import msgspec

from ranker.domain.conclusion import Demand, RunVerdict, conclude_submission, find_fault
from ranker.domain.rows import DecodedEvent
from ranker.service.ports import DecisionStore, DueRejudge, Metrics, PendingDecision
from shared import signing, subjects
from shared.blobs import BlobStore
from shared.clock import now
from shared.errors import Failed
from shared.event_log import Append, Appender, Conflict, EventLog, RecordedEvent
from shared.events import Fact, RejudgeJudged, RejudgePreviewed, RunCompleted, SubmissionFinished
from shared.subjects import derive_id

logger = logging.getLogger(__name__)

DIFF_MEDIA = "application/json"
DUE_MAX = 100
# An event has up to 256 KiB; dropped ones are read again.
VERDICTS_MAX = 200
ACTOR = "service:ranker"


class EventCause(NamedTuple):
    """Why an event is appended.

    Its id is derived from `effect`, by default the cause, so that repeating it changes nothing.
    `corr` is what it belongs to, by default its aggregate.
    """

    cause: str
    corr: str | None = None
    effect: str | None = None


async def append_event(log: EventLog, agg: str, fact: Fact, version: int, cause: EventCause) -> int:
    """Append to a history that is still at `version`; the new version, 0 on a conflict."""
    id_ = derive_id(cause.effect or cause.cause, type(fact).__name__)
    append = Append(agg, fact, version, cause.cause, cause.corr or agg, id_)
    try:
        return await Appender(log, ACTOR, now).append(append)
    except Conflict:
        logger.info("another process appended to %s after version %s", agg, version)
        return 0


@dataclass
class Decisions:
    """Decides what is due in the read models; deciding twice gives one event."""

    log: EventLog
    models: DecisionStore
    blobs: BlobStore
    metrics: Metrics
    demand: Demand
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
        await asyncio.gather(*(self._conclude(due[key]) for key in due.keys() - self.appended))
        self.appended |= due.keys()
        return len(undecided) == DUE_MAX

    async def drafts(self) -> bool:
        """Draft and preview due rejudges; True if there may be more. Raises Failed."""
        rejudges: dict[str, list[PendingDecision]] = {}
        items = await self.models.undecided_items(DUE_MAX)
        for item in items:
            rejudges.setdefault(item.rejudge, []).append(item)
        await asyncio.gather(*(self._judge_items(pending) for pending in rejudges.values()))
        previews = await self.models.unpreviewed()
        for due in previews:
            await self._append_preview(due)
        return bool(items or previews)

    async def _conclude(self, waiting: PendingDecision) -> None:
        end = conclude_submission(await self._verify(waiting), self.demand)
        assert end.run is not None, "a conclusion names its run"
        agg = subjects.submission(waiting.submission)
        cause = EventCause(end.run, corr=waiting.submission)
        if await append_event(self.log, agg, end, waiting.version, cause):
            self.metrics.decided(end)

    async def _judge_items(self, items: Sequence[PendingDecision]) -> None:
        """Draft the items of one rejudge in order: each append expects the one before."""
        rejudge, version = items[0].rejudge, items[0].version
        for item in items:
            fact = RejudgeJudged(submission=item.submission, result=await self._make_draft(item))
            cause = EventCause(rejudge, rejudge, effect=f"{rejudge}/{item.submission}")
            agg = subjects.rejudge(rejudge)
            version = await append_event(self.log, agg, fact, version, cause)
            if not version:
                return

    async def _make_draft(self, item: PendingDecision) -> SubmissionFinished:
        if item.given_up is None:
            return conclude_submission(await self._verify(item), self.demand)
        return SubmissionFinished(
            outcome="infra_failed", is_eligible=False, code="given_up", reason=item.given_up
        )

    async def _append_preview(self, due: DueRejudge) -> None:
        preview = await self.models.preview(due)
        blob = await self.blobs.put(msgspec.json.encode(preview, order="sorted"), DIFF_MEDIA)
        fact = RejudgePreviewed(diff=blob, changed_count=preview["changed_count"])
        cause = EventCause(due.id, corr=due.id)
        await append_event(self.log, subjects.rejudge(due.id), fact, due.version, cause)

    async def _verify(self, waiting: PendingDecision) -> RunVerdict:
        """The verdict, with its fault if any, checked against the event's own bytes."""
        agg = subjects.run(waiting.origin.agent, waiting.origin.run)
        event = await self._read_verdict(agg, waiting.ended_seq)
        fact = event.fact
        assert isinstance(fact, RunCompleted), "the read models name the event of the verdict"
        fault = find_fault(
            event.envelope, fact.key, fact.environment, waiting.origin, signing.verify_verdict
        )
        return replace(waiting.verdict, fault=fault)

    async def _read_verdict(self, agg: str, seq: int) -> RecordedEvent:
        """The event of a verdict, from memory or else read again. Raises Failed."""
        remembered = self.verdicts.pop(seq, None)
        if remembered is not None and subjects.history_of(remembered.envelope.agg) == agg:
            return remembered
        history = await self.log.history(agg, seq - 1)
        if not history or history[0].seq != seq:
            raise Failed(f"event {seq} of {agg} cannot be read yet")
        return history[0]
