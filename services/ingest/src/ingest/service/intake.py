"""Taking in: load, decide, keep the blob, append with what it costs, answer."""

import asyncio
import contextlib
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import NamedTuple
from weakref import WeakValueDictionary

from msgspec import structs

from ingest.domain import accounts, platform, problems, quotas, submissions
from ingest.domain.callers import SCOPE_OF_MODE, Caller, check_scope
from ingest.domain.quotas import Balance, Quota
from ingest.service.decisions import DECISIONS_MAX, pause
from ingest.service.gate import AccessFeed
from ingest.service.histories import Histories
from ingest.service.ports import Note, Ports
from shared import subjects
from shared.clock import new_id
from shared.errors import Failed, Refused
from shared.event_log import Conflict, New
from shared.events import ProblemPublished, QuotaTaken, SubmissionReceived
from shared.ids import derived
from shared.problems.directives import Directives, read_directives
from shared.problems.languages import MEDIA, suffix
from shared.wire import Stamp, seal

GPUS_MAX = 8
PLATFORM = "platform"


class Upload(NamedTuple):
    """A submit request as it came; an operator who vouches for it may come after the deadline."""

    caller: Caller
    problem: str
    mode: str
    gpus: Sequence[str]
    name: str
    source: bytes
    via: str
    idempotency_key: str | None
    vouched_by: str = ""
    note: Note = Note()


@dataclass(frozen=True)
class Receipt:
    """What is promised once SubmissionReceived is in the log; `quota` is what it leaves."""

    id: str
    number: int
    gpu: str
    deadline_at: datetime
    problem_number: int
    quota: Balance | None
    is_replay: bool = False


@dataclass(frozen=True)
class Batch:
    """The submissions that one request makes, by id: all are taken in, or none.

    What comes `late` may still be the repeat of what came in time.
    """

    account: str
    at: datetime
    has_key: bool
    facts: Mapping[str, SubmissionReceived]
    late: Refused | None = None

    @property
    def buckets(self) -> dict[str, str]:
        """The bucket that each takes of."""
        return {
            submission: quotas.bucket(fact.problem, fact.gpu, fact.mode)
            for submission, fact in self.facts.items()
        }


class Quotas(NamedTuple):
    """An account's quotas at a version, and everybody's limits."""

    own: Quota
    version: int
    everybody: Quota


class Intake:
    """The way in, the same for everybody and from everywhere."""

    def __init__(self, ports: Ports, histories: Histories, feed: AccessFeed) -> None:
        self._ports = ports
        self._feed = feed
        self._histories = histories
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def submit(self, upload: Upload) -> list[Receipt]:
        """Take a submission in, one for each GPU type. Errors: Refused; Failed."""
        slug, caller = upload.problem.lower(), upload.caller
        account, at = caller.id, self._ports.clock()
        _, problem = await asyncio.gather(self.check_open(), self._problem(slug))
        submissions.check_mode(upload.mode)
        check_scope(caller, SCOPE_OF_MODE[upload.mode])
        published = problems.known(slug, problem)
        self._feed.now().check_sees(caller, slug)
        key = upload.idempotency_key
        late = None if upload.vouched_by else problems.lateness(slug, problem, at)
        if late is not None and key is None:
            raise late
        for gpu in upload.gpus:
            submissions.choose_gpu(gpu, Directives(), published)
        text = submissions.file_text(upload.name, upload.source, published)
        directives = read_directives(text)
        submissions.check_directives(slug, directives)
        gpus = _gpus(upload, directives, published)
        agg = subjects.account(account)
        accounts.check_ban(await self._histories.state(agg, accounts.accounts), at)
        command = submissions.Submit(
            account=account,
            problem=slug,
            mode=upload.mode,
            name=submissions.safe_name(upload.name),
            text=text,
            source=await self._ports.blobs.put(upload.source, MEDIA[suffix(upload.name)]),
            at=at,
            via=upload.via,
            request_hash=_request_hash(slug, upload),
        )
        scope = f"{account}/{key}" if key else new_id()
        facts = {
            derived(scope, str(index)): submissions.receive(command, published, gpu)
            for index, gpu in enumerate(gpus)
        }
        receipts = await self._take_in(Batch(account, at, key is not None, facts, late))
        if upload.note != Note():
            # After the log, which alone says that they are there: who is told that this failed
            # asks again under the same key.
            taken = [receipt.id for receipt in receipts]
            await self._ports.people.begin_notes(account, taken, upload.note)
        return receipts

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
        found = await self.quotas(batch.account, batch.at)
        is_limited = any(
            quotas.limit_for(one, found.own, found.everybody) for one in batch.buckets.values()
        )
        turn = self._turns.setdefault(batch.account, asyncio.Lock())
        async with turn if is_limited else contextlib.nullcontext():
            for attempt in range(DECISIONS_MAX):
                if is_limited or attempt:
                    found = await self.quotas(batch.account, batch.at)
                try:
                    return await self._attempt(batch, found)
                except Conflict:
                    await pause(attempt)
        raise Failed(f"a quota changed {DECISIONS_MAX} times while it was being taken of")

    async def _attempt(self, batch: Batch, found: Quotas) -> list[Receipt]:
        """Errors: Refused; Conflict, if somebody took of the quota meanwhile."""
        try:
            if batch.late is not None:
                raise batch.late
            taken = quotas.take(batch.buckets, found.own, found.everybody, batch.at)
            last = await self._append(batch, taken, found.version)
        except (Refused, Conflict):
            # Nothing is asked for twice: what was taken in has paid for itself.
            if replays := await self._replays(batch, found):
                return replays
            raise
        left = found._replace(own=quotas.folded(found.own, taken))
        first = last - len(batch.facts) + 1
        return [
            _receipt(submission, first + place, fact, _left(fact, left, batch.at))
            for place, (submission, fact) in enumerate(batch.facts.items())
        ]

    async def _append(self, batch: Batch, taken: Sequence[QuotaTaken], version: int) -> int:
        """All or nothing, and the sequence of the last submission. Errors: Conflict; Failed."""
        costs = {one.submission: one for one in taken}
        events = []
        for place, one in enumerate(taken):
            # Of several events of one aggregate in a batch, the first alone names a version.
            stamp = _stamp(batch, one.submission)
            agg = subjects.quota(batch.account)
            events.append(New(seal(one, agg, stamp), None if place else version))
        for submission, fact in batch.facts.items():
            cost = costs.get(submission)
            paid = structs.replace(fact, bucket=cost.bucket, cost=cost.cost) if cost else fact
            agg = subjects.submission(submission)
            events.append(New(seal(paid, agg, _stamp(batch, submission)), 0))
        if len(events) == 1:
            return await self._ports.log.append(events[0])
        return await self._ports.log.append_all(events)

    async def _replays(self, batch: Batch, found: Quotas) -> list[Receipt]:
        """What the same request was answered before; [] if it is new."""
        replays = []
        for submission, asked in batch.facts.items() if batch.has_key else ():
            history = await self._ports.log.history(subjects.submission(submission))
            if not history:
                continue
            fact = history[0].fact
            assert isinstance(fact, SubmissionReceived)
            if fact.request_hash != asked.request_hash:
                what = "this Idempotency-Key came with another request before"
                raise Refused("idempotency_key_reused", what)
            left = _left(fact, found, batch.at)
            replays.append(_receipt(submission, history[0].seq, fact, left, is_replay=True))
        return replays

    async def quotas(self, account: str, at: datetime) -> Quotas:
        """The quotas of an account, as they are now."""
        fold = partial(quotas.folded, at=at)
        own, everybody = await asyncio.gather(
            self._histories.load(subjects.quota(account), Quota(), fold),
            self._histories.load(subjects.quota(quotas.EVERYBODY), Quota(), fold),
        )
        return Quotas(own.state, own.seq, everybody.state)


def _gpus(upload: Upload, directives: Directives, published: ProblemPublished) -> list[str]:
    named = list(dict.fromkeys(upload.gpus or directives.gpus))
    asked: list[str | None] = [*named] or [None]
    if len(asked) > GPUS_MAX:
        raise Refused("unknown_gpu", f"at most {GPUS_MAX} GPU types at once", "gpu")
    chosen = [submissions.choose_gpu(gpu, directives, published) for gpu in asked]
    return list(dict.fromkeys(chosen))


def _left(fact: SubmissionReceived, found: Quotas, at: datetime) -> Balance | None:
    name = quotas.bucket(fact.problem, fact.gpu, fact.mode)
    return quotas.balance(name, found.own, found.everybody, at)


def _stamp(batch: Batch, submission: str) -> Stamp:
    return Stamp(new_id(), batch.at, f"account:{batch.account}", submission, "http")


def _receipt(
    submission: str,
    number: int,
    fact: SubmissionReceived,
    left: Balance | None,
    is_replay: bool = False,
) -> Receipt:
    return Receipt(
        id=submission,
        number=number,
        gpu=fact.gpu,
        deadline_at=fact.deadline_at,
        problem_number=fact.problem_number,
        quota=left,
        is_replay=is_replay,
    )


def _request_hash(slug: str, upload: Upload) -> str:
    """What two requests under one Idempotency-Key must have in common."""
    digest = hashlib.sha256(upload.source).hexdigest()
    noted = upload.note if upload.note != Note() else ()
    named = [slug, upload.mode, *sorted(upload.gpus), upload.name, digest]
    said = "\n".join([*named, *(one or "" for one in noted)])
    return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()
