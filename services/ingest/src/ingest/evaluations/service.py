"""Accepts, cancels and reads back evaluations, and submits their items."""

import asyncio
import hashlib
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import msgspec

from ingest.consents.rules import check_consent
from ingest.decisions import DECISIONS_MAX, DecisionResult, Decisions, back_off, http_append
from ingest.evaluations import rules
from ingest.evaluations.rules import Budget, EvaluationLimits
from ingest.histories import HistoryCache
from ingest.identity.access.feed import AccessFeed
from ingest.identity.bans import check_ban
from ingest.identity.caller import Caller, check_problem
from ingest.ports import Ports
from ingest.quotas.service import Quotas
from ingest.submissions.intake import Intake
from ingest.submissions.resolution import SubmissionContext, Upload, check_admitted, check_allowed
from shared import events, subjects
from shared.api.evaluations import CachedVerdictFound, Evaluation, EvaluationItem
from shared.api.submissions import SubmissionReceipts, SubmissionRequest
from shared.blobs import BlobNotFound, describe_blob
from shared.errors import Failed, Refused
from shared.evaluations import JSON_LINES, encode_lines, read_items
from shared.event_log import Append, Conflict, Decider, RecordedEvent
from shared.problems.submission_file import choose_precision, read_directives
from shared.request_trace import request_trace
from shared.states import EVALUATION_STATES, QUEUED
from shared.subjects import derive_id

log = logging.getLogger(__name__)
HTTP = "http"
NO_AGENT = "no_agent"


class NewEvaluation(NamedTuple):
    """A request for an evaluation; `request` has what all its submissions would have."""

    caller: Caller
    request: SubmissionRequest
    items: Sequence[EvaluationItem]
    uses_cache: bool
    idempotency_key: str | None

    @property
    def digest(self) -> str:
        """What two requests under one Idempotency-Key must share."""
        fields = (self.request.problem.lower(), self.request.mode, self.request.gpus)
        options = (self.request.precision, self.uses_cache, list(self.items))
        return hashlib.sha256(msgspec.json.encode((fields, options))).hexdigest()


class EvaluationHistory(NamedTuple):
    """An evaluation with its events."""

    id: str
    requested: events.EvaluationRequested
    history: Sequence[RecordedEvent]


def _decide_cancel(command: events.EvaluationCancelRequested, state: str) -> Sequence[events.Fact]:
    if state == "over":
        raise Refused("already_ended", "the evaluation is over", "evaluation")
    return () if state == "cancelling" else (command,)


def _evolve_state(state: str, fact: events.Fact) -> str:
    if isinstance(fact, events.EvaluationFinished):
        return "over"
    return "cancelling" if isinstance(fact, events.EvaluationCancelRequested) else state


CANCEL_DECIDER = Decider[events.EvaluationCancelRequested, str, events.Fact](
    "", _decide_cancel, _evolve_state
)


@dataclass(frozen=True)
class EvaluationCommands:
    """The commands about evaluations. Methods may raise `Refused` and `Failed`."""

    ports: Ports
    decisions: Decisions
    histories: HistoryCache
    intake: Intake
    feed: AccessFeed
    quotas: Quotas
    limits: EvaluationLimits

    async def request(self, new: NewEvaluation) -> Evaluation:
        """Accept an evaluation; a repeat under its key is the same one."""
        rules.check_items(new.items, self.limits.items_max)
        upload = Upload(new.caller, new.request, HTTP, new.idempotency_key)
        context = await self.intake.load(upload)
        key = new.idempotency_key or context.new_id
        id_ = derive_id(f"{new.caller.id}/{key}", "evaluation")
        history = await self.ports.log.history(subjects.evaluation(id_))
        if history:
            return _describe(id_, history[0], _check_repeat(history[0], new))
        requested, items = await self._prepare(new, upload, context)
        requested = msgspec.structs.replace(
            requested, source=await self.ports.blobs.put(encode_lines(items), JSON_LINES)
        )
        recorded = await self._record(id_, requested, new)
        request_trace().accept(id_, recorded.seq)
        fact = recorded.fact
        assert isinstance(fact, events.EvaluationRequested), "it was just recorded"
        evaluation = _describe(id_, recorded, fact)
        warnings = await self._find_warnings(requested)
        return msgspec.structs.replace(evaluation, warnings=warnings)

    async def _prepare(
        self, new: NewEvaluation, upload: Upload, context: SubmissionContext
    ) -> tuple[events.EvaluationRequested, Sequence[EvaluationItem]]:
        """Return the event of an evaluation and its items in order, those that run first."""
        request, slug = new.request, new.request.problem.lower()
        published = check_allowed(upload, slug, context)
        entry = check_admitted(upload, slug, context)
        if entry is not None and context.contest is not None:
            earlier = context.contest.earlier_contestants(entry.contestant)
            quota = await self.quotas.load_phase(
                entry.contest, entry.contestant, context.at, earlier
            )
            rules.check_unlimited(quota, slug, request.mode)
        check_ban(context.account.ban, context.at)
        check_consent(context.account.consents, slug, published)
        gpu = await asyncio.to_thread(rules.check_sources, request, new.items, slug, published)
        requires = rules.required(new.items, published, gpu)
        verdicts: dict[str, CachedVerdictFound] = {}
        if new.uses_cache and request.mode == rules.TEST:
            digests = list(dict.fromkeys(map(rules.source_digest, new.items)))
            # Without the read side everything runs.
            with suppress(Failed):
                known = await self.ports.lookups.verdicts(digests, published.digest, gpu)
                verdicts = {verdict.source: verdict for verdict in known}
        items, cached = rules.order_items(new.items, verdicts)
        seconds = rules.item_s_max(request.mode, published)
        requested = events.EvaluationRequested(
            account=new.caller.id,
            token=new.caller.token or "",
            problem=slug,
            problem_number=published.number,
            problem_digest=published.digest,
            gpu=gpu,
            mode=request.mode,
            source=describe_blob(b"", JSON_LINES),
            sources=[rules.source_digest(item) for item in items],
            chunk_items=rules.CHUNK_ITEMS[request.mode],
            item_s_max=seconds,
            deadline_at=rules.deadline(context.at, len(items) - len(cached), seconds),
            request_hash=new.digest,
            requires=requires,
            cached=cached,
            precision=choose_precision(request.precision, request.mode, read_directives("")),
        )
        return requested, items

    async def _record(
        self, id_: str, requested: events.EvaluationRequested, new: NewEvaluation
    ) -> RecordedEvent:
        """Append an evaluation with what it reserves, all or nothing; return its event."""
        aggregate, budget_of = subjects.evaluation(id_), subjects.budget(requested.account)
        for attempt in range(DECISIONS_MAX):
            at = self.ports.clock()
            budget = await self.histories.load(
                budget_of, Budget(), partial(rules.fold_budget, at=at)
            )
            reserved = rules.reserve(budget.state, self.limits, requested, id_, at)
            try:
                await self.decisions.append(
                    new.caller.actor,
                    Append(aggregate, requested, 0, "http", id_),
                    http_append(budget_of, reserved, budget.seq, id_),
                )
            except Conflict:
                await back_off(attempt)
            if history := await self.ports.log.history(aggregate):
                _check_repeat(history[0], new)
                return history[0]
        raise Failed("your evaluations changed too often during the request: try again")

    async def _find_warnings(self, requested: events.EvaluationRequested) -> list[str]:
        """Return why nothing may run it soon; nothing if the read side does not answer."""
        with suppress(Failed):
            queue = await self.ports.lookups.queue(requested.gpu, requested.mode)
            if queue is not None and queue.state == NO_AGENT and queue.reason:
                return [f"{queue.reason}: its items wait"]
        return []

    async def cancel(self, id_: str, caller: Caller, reason: str) -> DecisionResult:
        """Cancel one's own evaluation; operators may cancel any."""
        await self._load(id_, caller)
        command = events.EvaluationCancelRequested(reason=reason)
        return await self.decisions.make(
            subjects.evaluation(id_), CANCEL_DECIDER, command, caller.actor
        )

    async def submit_item(
        self, id_: str, item: str, caller: Caller, mode: str, key: str | None
    ) -> SubmissionReceipts:
        """Submit an item of one's own evaluation, by its place or `best`."""
        evaluation = await self._load(id_, caller)
        if self.feed.rights().account_of(evaluation.requested.account) != caller.account:
            raise Refused(
                "not_yours", "the evaluation belongs to another participant", "evaluation"
            )
        place = await self._find_item(evaluation, item)
        try:
            file = await self.ports.blobs.get(evaluation.requested.source.digest)
        except BlobNotFound as missing:
            message = "the sources of this evaluation are no longer stored: send the file"
            raise Refused("not_found", message, "item") from missing
        entry, *others = (await asyncio.to_thread(read_items, file))[place].files
        request = SubmissionRequest(
            name=entry.name,
            source=entry.data,
            problem=evaluation.requested.problem,
            mode=mode,
            gpus=(evaluation.requested.gpu,),
            others=tuple(others),
        )
        return await self.intake.submit(Upload(caller, request, HTTP, key))

    async def _find_item(self, evaluation: EvaluationHistory, item: str) -> int:
        if item == rules.BEST:
            return rules.find_best(await self.ports.lookups.results(evaluation.id)).item
        count = len(evaluation.requested.sources)
        if not item.isdecimal() or int(item) >= count:
            message = f"the items of this evaluation are 0 to {count - 1}, or `{rules.BEST}`"
            raise Refused("not_found", message, "item")
        return int(item)

    async def _load(self, id_: str, caller: Caller) -> EvaluationHistory:
        """Return an evaluation that the caller may see. Raises `Refused` (`unknown_evaluation`)."""
        history = await self.ports.log.history(subjects.evaluation(id_))
        first = history[0].fact if history else None
        is_seen = isinstance(first, events.EvaluationRequested) and (
            caller.may("admin:submissions")
            or self.feed.rights().account_of(first.account) == caller.account
        )
        if not is_seen:
            raise Refused("unknown_evaluation", f"you have no evaluation {id_!r}", "evaluation")
        assert isinstance(first, events.EvaluationRequested), "an evaluation begins with this event"
        check_problem(caller, first.problem)
        return EvaluationHistory(id_, first, history)


def _check_repeat(event: RecordedEvent, new: NewEvaluation) -> events.EvaluationRequested:
    fact = event.fact
    assert isinstance(fact, events.EvaluationRequested), "an evaluation begins with this event"
    if fact.request_hash != new.digest:
        message = "this Idempotency-Key was used for a different request"
        raise Refused("idempotency_key_reused", message)
    return fact


def _describe(id_: str, event: RecordedEvent, fact: events.EvaluationRequested) -> Evaluation:
    """Return an evaluation as it was when it was accepted."""
    fields = msgspec.structs.asdict(fact) | {
        "id": id_,
        "participant_id": fact.account,
        "problem_version": fact.problem_number,
        "state": QUEUED,
        "state_owner": EVALUATION_STATES[QUEUED].owner,
        "items": len(fact.sources),
        "ended": len(fact.cached),
        "completed": len(fact.cached),
        "failed": 0,
        "cancelled": 0,
        "cached": len(fact.cached),
        "device_s": 0.0,
        "requested_at": event.envelope.at,
        "version": event.seq,
        "results_url": f"/v1/evaluations/{id_}/results",
    }
    return msgspec.convert(fields, Evaluation)
