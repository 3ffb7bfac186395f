"""What is due: the end of each submission with a verdict, and the drafts of rejudges."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import msgspec

from ranker.domain.attestation import find_fault
from ranker.domain.batch import Told
from ranker.domain.conclusion import Verdict, conclude
from ranker.domain.eligibility import Demand
from ranker.service.ports import Deciding, Due, Metrics, Waiting
from shared import signing, subjects
from shared.blobs import Blobs
from shared.clock import now
from shared.errors import Failed
from shared.event_log import Conflict, EventLog, New, Recorded
from shared.events import (
    Fact,
    RejudgeJudged,
    RejudgePreviewed,
    RunCompleted,
    SubmissionFinished,
)
from shared.ids import derived
from shared.wire import Stamp, seal

log = logging.getLogger(__name__)

ACTOR = "service:ranker"
DIFF_MEDIA = "application/json"
DUE_MAX = 100
# An event has up to 256 KiB; what was forgotten is read again.
VERDICTS_MAX = 200


@dataclass
class Decisions:
    """Decides what the read models say is due; a decision made twice is one event."""

    log: EventLog
    models: Deciding
    blobs: Blobs
    metrics: Metrics
    wanted: Demand
    said: set[tuple[str, int]] = field(default_factory=set)
    verdicts: OrderedDict[int, Recorded] = field(default_factory=OrderedDict)

    def hear(self, batch: Sequence[Told]) -> None:
        """Remember the newest verdicts of a batch, which are soon to be decided."""
        for told in batch:
            if isinstance(told.fact, RunCompleted):
                self.verdicts[told.event.seq] = told.event
                if len(self.verdicts) > VERDICTS_MAX:
                    self.verdicts.popitem(last=False)

    async def ends(self) -> bool:
        """End all submissions with a verdict; True if there may be more. Errors: Failed.

        What was said is soon folded, and no longer here. What another event forestalled, such as
        a cancel that came too late, has a new version.
        """
        undecided = await self.models.undecided(DUE_MAX)
        due = {(one.submission, one.version): one for one in undecided}
        self.said &= due.keys()
        await asyncio.gather(*(self._end(due[one]) for one in due.keys() - self.said))
        self.said |= due.keys()
        return len(undecided) == DUE_MAX

    async def drafts(self) -> bool:
        """Draft and preview what is due of rejudges; True if there may be more. Errors: Failed."""
        rejudges: dict[str, list[Waiting]] = {}
        items = await self.models.undecided_items(DUE_MAX)
        for one in items:
            rejudges.setdefault(one.rejudge, []).append(one)
        await asyncio.gather(*(self._judge(found) for found in rejudges.values()))
        previews = await self.models.unpreviewed()
        for due in previews:
            await self._preview(due)
        return bool(items or previews)

    async def _end(self, waiting: Waiting) -> None:
        end = conclude(await self._verified(waiting), self.wanted)
        assert end.run is not None, "a conclusion names its run"
        agg = subjects.submission(waiting.submission)
        stamp = Stamp(
            derived(end.run, "SubmissionFinished"), now(), ACTOR, waiting.submission, end.run
        )
        try:
            await self.log.append(New(seal(end, agg, stamp), waiting.version))
        except Conflict:
            log.info("submission %s was ended by another", waiting.submission)
        else:
            self.metrics.decided(end)

    async def _judge(self, items: Sequence[Waiting]) -> None:
        """The drafts of one rejudge, one after the other, for each expects the one before."""
        rejudge, version = items[0].rejudge, items[0].version
        for item in items:
            fact = RejudgeJudged(submission=item.submission, result=await self._draft(item))
            effect = derived(f"{rejudge}/{item.submission}", "RejudgeJudged")
            version = await self._say(rejudge, fact, effect, version)
            if not version:
                return

    async def _draft(self, item: Waiting) -> SubmissionFinished:
        if item.given_up is None:
            return conclude(await self._verified(item), self.wanted)
        return SubmissionFinished(
            outcome="infra_failed", is_eligible=False, code="given_up", reason=item.given_up
        )

    async def _preview(self, due: Due) -> None:
        said = await self.models.preview(due)
        blob = await self.blobs.put(msgspec.json.encode(said, order="sorted"), DIFF_MEDIA)
        fact = RejudgePreviewed(diff=blob, changed_count=said["changed_count"])
        await self._say(due.id, fact, derived(due.id, "RejudgePreviewed"), due.version)

    async def _say(self, rejudge: str, fact: Fact, effect: str, version: int) -> int:
        """Append to a rejudge's history; the new version, 0 if another was first."""
        stamp = Stamp(effect, now(), ACTOR, rejudge, rejudge)
        try:
            return await self.log.append(New(seal(fact, subjects.rejudge(rejudge), stamp), version))
        except Conflict:
            log.info("rejudge %s moved on after %s", rejudge, version)
            return 0

    async def _verified(self, waiting: Waiting) -> Verdict:
        """The verdict, with why it does not count, checked against the log's own bytes."""
        agg = subjects.run(waiting.origin.agent, waiting.origin.run)
        event = await self._event(agg, waiting.ended_seq)
        fact = event.fact
        assert isinstance(fact, RunCompleted), "the read models name the event of the verdict"
        fault = find_fault(
            event.envelope, fact.key, fact.environment, waiting.origin, signing.verify
        )
        return replace(waiting.verdict, fault=fault)

    async def _event(self, agg: str, seq: int) -> Recorded:
        """An event that says a verdict, as it was heard or else read again. Errors: Failed."""
        heard = self.verdicts.pop(seq, None)
        if heard is not None and subjects.history_of(heard.envelope.agg) == agg:
            return heard
        found = await self.log.history(agg, seq - 1)
        if not found or found[0].seq != seq:
            raise Failed(f"event {seq} of {agg} cannot be read yet")
        return found[0]
