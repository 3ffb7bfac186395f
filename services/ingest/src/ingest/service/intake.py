"""Taking in: load, decide, keep the blob, append with what it costs, answer."""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from weakref import WeakValueDictionary

from msgspec import structs

from ingest.domain import accounts, consents, platform, problems, quotas, submissions
from ingest.domain.account_tables import name_lost
from ingest.domain.callers import SCOPE_OF_MODE, check_scope
from ingest.domain.quotas import Quota
from ingest.service.batches import KEY_LIFE_S, Batch, Found, Receipt, Upload
from ingest.service.decisions import DECISIONS_MAX, pause
from ingest.service.gate import AccessFeed
from ingest.service.histories import Histories
from ingest.service.ports import Note, Ports
from ingest.service.room import Bounds, Queues, Room
from shared import subjects
from shared.errors import Failed, Refused
from shared.event_log import Conflict, New
from shared.events import ProblemPublished, QuotaTaken, SubmissionReceived
from shared.problems.directives import Directives, read_directives
from shared.wire import seal

# Whoever takes one key for everything finds another one after a year.
USES_MAX = 400
PLATFORM = "platform"


class Intake:
    """The way in, the same for everybody and from everywhere."""

    def __init__(
        self, ports: Ports, histories: Histories, feed: AccessFeed, bounds: Bounds
    ) -> None:
        self._ports = ports
        self._feed = feed
        self._histories = histories
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.room = Room(bounds)
        self.queues = Queues(ports.lookups, bounds.queued_max)

    async def submit(self, upload: Upload) -> list[Receipt]:
        """Take a submission in, one for each GPU type. Errors: Refused; Failed."""
        batch = await self._batch(upload)
        await self._check_note(batch)
        async with self.room.place(batch.account):
            receipts = await self._take_in(batch)
            if upload.note != Note():
                # After the log, which alone says that they are there: who is told that this failed
                # asks again under the same key.
                taken = [receipt.id for receipt in receipts]
                await self._ports.people.begin_notes(batch.account, taken, upload.note)
        return [replace(one, queue=self.queues.seen(one.gpu)) for one in receipts]

    async def _check_note(self, batch: Batch) -> None:
        """Refuse a note that could not be kept, before anything is accepted. Errors: Refused."""
        if batch.upload.note != Note() and not await self._ports.people.has_row(batch.account):
            raise name_lost(batch.account)

    async def _batch(self, upload: Upload) -> Batch:
        """What a request asks for, refused in the contract's order. Errors: Refused; Failed."""
        slug, caller = upload.problem.lower(), upload.caller
        account, at = caller.id, self._ports.clock()
        _, problem, person = await asyncio.gather(
            self.check_open(),
            self._problem(slug),
            self._histories.state(subjects.account(account), accounts.accounts),
        )
        submissions.check_mode(upload.mode)
        check_scope(caller, SCOPE_OF_MODE[upload.mode])
        published = problems.known(slug, problem)
        self._feed.now().check_sees(caller, slug)
        if upload.idempotency_key is None and not upload.vouched_by:
            _check_open(slug, problem, at)
        for gpu in upload.gpus:
            submissions.choose_gpu(gpu, Directives(), published)
        text = submissions.file_text(upload.name, upload.source, published)
        directives = read_directives(text)
        submissions.check_directives(slug, directives)
        gpus = upload.gpus_of(directives, published)
        accounts.check_ban(person, at)
        consents.check(person.consents, slug, published)
        source = upload.blob
        command = submissions.Submit(
            account=account,
            problem=slug,
            mode=upload.mode,
            name=submissions.safe_name(upload.name),
            text=text,
            source=source,
            at=at,
            via=upload.via,
            request_hash=upload.hash(slug, source),
            case=submissions.check_case(upload.case, upload.mode, published),
        )
        wanted = [submissions.receive(command, published, gpu) for gpu in gpus]
        full = None if upload.vouched_by else await self.queues.fullness(gpus)
        return Batch(upload, upload.scope(), slug, wanted, at, full)

    async def check_open(self) -> None:
        """Refuse a submission while intake is paused. Errors: Refused; Failed."""
        platform.check_intake(
            await self._histories.state(subjects.audit(PLATFORM), platform.intake)
        )

    async def paused(self) -> str | None:
        """Why no submission is taken in; None if they are. Errors: Failed."""
        state = await self._histories.state(subjects.audit(PLATFORM), platform.intake)
        return state.paused

    async def published(self, slug: str) -> ProblemPublished:
        """The newest version of a problem. Errors: Refused `unknown_leaderboard`; Failed."""
        return problems.known(slug, await self._problem(slug))

    async def _problem(self, slug: str) -> problems.Problem:
        try:
            agg = subjects.problem(slug)
        except ValueError:
            return problems.Problem()
        return await self._histories.state(agg, problems.problems)

    async def _take_in(self, batch: Batch) -> list[Receipt]:
        """Decide on the quota until the decision holds.

        Requests of one account that take of a quota wait for each other here; those that came by
        another process are told by the quota's version, in the log.
        """
        found = await self._found(batch)
        is_limited = any(
            quotas.limit_for(one, found.own, found.everybody) for one in batch.buckets.values()
        )
        turn = self._turns.setdefault(batch.account, asyncio.Lock())
        async with turn if is_limited else contextlib.nullcontext():
            for attempt in range(DECISIONS_MAX):
                if is_limited or attempt:
                    found = await self._found(batch)
                batch = replace(batch, at=self._ports.clock())
                try:
                    return await self._attempt(batch, found)
                except (Refused, Conflict) as said:
                    batch, replays = await self._earlier(batch, found)
                    if replays:
                        return replays
                    if isinstance(said, Refused):
                        self.queues.turned_away += said is batch.full
                        raise
                    await pause(attempt)
        raise Failed(f"a quota changed {DECISIONS_MAX} times while it was being taken of")

    async def _attempt(self, batch: Batch, found: Found) -> list[Receipt]:
        """Errors: Refused; Conflict, if somebody took of the quota meanwhile."""
        if not batch.upload.vouched_by:
            # The instant that the event will bear decides, however long its sender took.
            _check_open(batch.problem, found.problem, batch.at)
        taken = quotas.take(batch.buckets, found.own, found.everybody, batch.at)
        if batch.full is not None:
            raise batch.full
        await self._ports.blobs.put(batch.upload.source, batch.wanted[0].source.media)
        last = await self._append(batch, taken, found.version)
        left = found._replace(own=quotas.folded(found.own, taken))
        first = last - len(batch.facts) + 1
        return [
            left.receipt(submission, first + place, fact, batch.at)
            for place, (submission, fact) in enumerate(batch.facts.items())
        ]

    async def _append(self, batch: Batch, taken: Sequence[QuotaTaken], version: int) -> int:
        """All or nothing, and the sequence of the last submission. Errors: Conflict; Failed."""
        costs = {one.submission: one for one in taken}
        events = []
        for place, one in enumerate(taken):
            # Of several events of one aggregate in a batch, the first alone names a version.
            stamp = batch.stamp(one.submission)
            agg = subjects.quota(batch.account)
            events.append(New(seal(one, agg, stamp), None if place else version))
        for submission, fact in batch.facts.items():
            cost = costs.get(submission)
            paid = structs.replace(fact, bucket=cost.bucket, cost=cost.cost) if cost else fact
            agg = subjects.submission(submission)
            events.append(New(seal(paid, agg, batch.stamp(submission)), 0))
        if len(events) == 1:
            return await self._ports.log.append(events[0])
        return await self._ports.log.append_all(events)

    async def _earlier(self, batch: Batch, found: Found) -> tuple[Batch, list[Receipt]]:
        """What the same request was answered within a day, for nothing is paid for twice.

        Without that, the batch under ids that nobody has taken. Errors: Refused.
        """
        for use in range(batch.use, USES_MAX if batch.has_key else batch.use):
            batch = replace(batch, use=use)
            history = await self._ports.log.history(subjects.submission(next(iter(batch.facts))))
            if not history:
                return batch, []
            if (batch.at - history[0].envelope.at).total_seconds() < KEY_LIFE_S:
                return batch, await self._replays(batch, found)
        if batch.has_key:
            what = f"this Idempotency-Key was used on {USES_MAX} days: send a new one"
            raise Refused("idempotency_key_reused", what)
        return batch, []

    async def _replays(self, batch: Batch, found: Found) -> list[Receipt]:
        replays = []
        for submission, asked in batch.facts.items():
            history = await self._ports.log.history(subjects.submission(submission))
            if not history:
                continue
            fact = history[0].fact
            assert isinstance(fact, SubmissionReceived)
            if fact.request_hash != asked.request_hash:
                what = "this Idempotency-Key came with another request before"
                raise Refused("idempotency_key_reused", what)
            receipt = found.receipt(submission, history[0].seq, fact, batch.at)
            replays.append(replace(receipt, is_replay=True))
        return replays

    async def _found(self, batch: Batch) -> Found:
        found, problem = await asyncio.gather(
            self.quotas(batch.account, batch.at), self._problem(batch.problem)
        )
        return found._replace(problem=problem)

    async def quotas(self, account: str, at: datetime) -> Found:
        """The quotas of an account, as they are now."""
        fold = partial(quotas.folded, at=at)
        own, everybody = await asyncio.gather(
            self._histories.load(subjects.quota(account), Quota(), fold),
            self._histories.load(subjects.quota(quotas.EVERYBODY), Quota(), fold),
        )
        return Found(own.state, own.seq, everybody.state)


def _check_open(slug: str, problem: problems.Problem, at: datetime) -> None:
    if late := problems.lateness(slug, problem, at):
        raise late
