"""Accepting submissions: load, decide, store the source, append, answer."""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import NamedTuple
from weakref import WeakValueDictionary

from msgspec import structs

from ingest.consents.rules import check_consent
from ingest.decisions import DECISIONS_MAX, back_off, http_append
from ingest.identity.access.feed import AccessFeed
from ingest.identity.accounts.rules import accounts
from ingest.identity.bans import check_ban
from ingest.identity.caller import Caller, check_scope
from ingest.identity.names import name_lost
from ingest.identity.scopes import SCOPE_OF_MODE
from ingest.ports import Note, Ports
from ingest.problems import rules as problems
from ingest.quotas import rules as quotas
from ingest.quotas.service import Quotas, QuotaState
from ingest.submissions import rules
from ingest.submissions.admission import (
    AdmissionLimits,
    AdmissionQueue,
    GpuQueues,
    no_agent_warning,
)
from ingest.submissions.normal_form import normal_digest
from shared import subjects
from shared.api.submissions import Links, Receipt, SubmissionReceipts, SubmissionRequest
from shared.blobs import describe_blob
from shared.clock import new_id
from shared.errors import Failed, Refused
from shared.event_log import Appender, Conflict
from shared.events import Blob, ProblemPublished, SubmissionReceived
from shared.problems.submission_file import (
    MEDIA,
    Directives,
    choose_precision,
    read_directives,
    suffix,
)
from shared.subjects import derive_id

GPUS_MAX = 8
# For this long a key stands for the first request that used it.
KEY_LIFE_S = 24 * 3600
HTTP = "http"

# A client that always sends the same key must choose another one after about a year.
USES_MAX = 400
PLATFORM = "platform"


class Upload(NamedTuple):
    """A submission request as it arrived; `vouched_by` an operator, it may come too late."""

    caller: Caller
    request: SubmissionRequest
    via: str
    idempotency_key: str | None
    vouched_by: str = ""

    @property
    def note(self) -> Note | None:
        """Return the note on the submissions, if there is one."""
        note, tag = self.request.note or None, self.request.tag or None
        return Note(note, tag) if note or tag else None

    def scope(self) -> str:
        """Return the scope that the submission ids are derived from.

        With a key, it consists of the account, the channel and the key. No key and no account
        contains a space.
        """
        key, account = self.idempotency_key, self.caller.id
        if key is None:
            return new_id()
        return f"{account}/{key}" if self.via == HTTP else f"{account} {self.via} {key}"

    def gpus_of(self, directives: Directives, published: ProblemPublished) -> list[str]:
        """Return the GPU types to submit to, each once. Raises `Refused` (`unknown_gpu`)."""
        gpus = list(dict.fromkeys(self.request.gpus or directives.gpus))
        requested: list[str | None] = [*gpus] or [None]
        if len(requested) > GPUS_MAX:
            raise Refused("unknown_gpu", f"at most {GPUS_MAX} GPU types at once", "gpu")
        chosen = [rules.choose_gpu(gpu, directives, published) for gpu in requested]
        return list(dict.fromkeys(chosen))

    def hash(self, slug: str, blob: Blob) -> str:
        """Return the hash that two requests under one Idempotency-Key must share."""
        request = self.request
        lines = [slug, request.mode, *sorted(request.gpus), request.name, blob.digest]
        note_lines = [request.note, request.tag] if request.note or request.tag else []
        options = rules.run_options(request) | {"runner": request.runner}
        option_lines = [f"{name} {value}" for name, value in options.items() if value]
        text = "\n".join([*lines, *note_lines, *option_lines])
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class SubmissionBatch:
    """The submissions of one request: all are accepted, or none.

    `use` counts the earlier days on which its key was used. `unavailable` is the refusal for a full
    queue or a missing toolchain; it applies only if the request is not the repeat of one that was
    accepted.
    """

    upload: Upload
    scope: str
    problem: str
    requested: Sequence[SubmissionReceived]
    at: datetime
    unavailable: Refused | None = None
    use: int = 0

    @property
    def account(self) -> str:
        """Return the owner of the submissions."""
        return self.upload.caller.id

    @property
    def has_key(self) -> bool:
        """Return whether the request has an Idempotency-Key."""
        return self.upload.idempotency_key is not None

    @cached_property
    def facts(self) -> Mapping[str, SubmissionReceived]:
        """Return the events by submission id."""
        scope = f"{self.scope} {self.use}" if self.use else self.scope
        return {derive_id(scope, str(index)): fact for index, fact in enumerate(self.requested)}

    @property
    def buckets(self) -> dict[str, str]:
        """Return the quota bucket of each submission."""
        return {
            submission: quotas.bucket_name(fact.problem, fact.gpu, fact.mode)
            for submission, fact in self.facts.items()
        }


class Intake:
    """Accepts submissions from every client. Methods may raise `Refused` and `Failed`."""

    def __init__(
        self, ports: Ports, quotas: Quotas, feed: AccessFeed, limits: AdmissionLimits
    ) -> None:
        self._ports = ports
        self._quotas = quotas
        self._feed = feed
        self._histories = quotas.histories
        self._account_locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.admission = AdmissionQueue(limits)
        self.queues = GpuQueues(ports.lookups, limits.queued_max)

    async def submit(self, upload: Upload) -> SubmissionReceipts:
        """Accept a submission, one for each GPU type. Raises `Refused` and `Failed`."""
        batch, people, note = await self._prepare(upload), self._ports.people, upload.note
        # A note that could not be stored is refused before anything is accepted.
        if note is not None and not await people.has_row(batch.account):
            raise name_lost(batch.account)
        async with self.admission.admit(batch.account):
            receipts = await self._take_in(batch)
            if note is not None:
                # After the log, which decides whether they exist: a client that gets an error here
                # retries under the same key.
                submission_ids = [receipt.id for receipt in receipts.submissions]
                await people.begin_notes(batch.account, submission_ids, note)
        with_queues = [self._add_queue(receipt, batch) for receipt in receipts.submissions]
        return structs.replace(receipts, submissions=with_queues)

    def _add_queue(self, receipt: Receipt, batch: SubmissionBatch) -> Receipt:
        fact = next(fact for fact in batch.requested if fact.gpu == receipt.gpu)
        queue = self.queues.last_snapshot(fact.gpu, fact.mode)
        return structs.replace(receipt, queue=queue, warning=no_agent_warning(fact, queue) or None)

    async def _prepare(self, upload: Upload) -> SubmissionBatch:
        """Return the batch of a request; refusals come in the order of the API contract."""
        request, caller = upload.request, upload.caller
        slug = request.problem.lower()
        account, at = caller.id, self._ports.clock()
        _, problem, account_state = await asyncio.gather(
            self.check_open(),
            self._problem(slug),
            self._histories.state(subjects.account(account), accounts),
        )
        rules.check_mode(request.mode)
        check_scope(caller, SCOPE_OF_MODE[request.mode])
        self._feed.now().check_sees(caller, slug)
        published = problems.newest_version(slug, problem)
        if upload.idempotency_key is None and not upload.vouched_by:
            _check_in_time(slug, problem, at)
        for gpu in request.gpus:
            rules.choose_gpu(gpu, Directives(), published)
        text = rules.file_text(request.name, request.source, published)
        directives = read_directives(text)
        rules.check_directives(slug, directives)
        gpus = upload.gpus_of(directives, published)
        rules.check_case(request.case, request.mode, published)
        rules.check_ncu(request, gpus)
        precision = choose_precision(request.precision, request.mode, directives)
        check_ban(account_state.ban, at)
        check_consent(account_state.consents, slug, published)
        source = describe_blob(request.source, MEDIA[suffix(request.name)])
        received = SubmissionReceived(
            account=account,
            problem=slug,
            problem_number=published.number,
            problem_digest=published.digest,
            gpu="",
            mode=request.mode,
            source=source,
            name=rules.safe_name(request.name),
            deadline_at=rules.deadline(request.mode, published.budgets_s, at),
            via=upload.via,
            request_hash=upload.hash(slug, source),
            normal_digest=normal_digest(text, source.media),
            **rules.run_options(request) | {"precision": precision},
        )
        facts = []
        for gpu in gpus:
            requires = rules.required(received.name, text, published, gpu)
            requires = structs.replace(requires, runner=request.runner)
            facts.append(structs.replace(received, gpu=gpu, requires=requires))
        if request.runner:
            launcher = rules.launcher_history(request.runner)
            registered = await self._histories.state(launcher, rules.launchers)
            toolchains = {name: None for fact in facts for name in fact.requires.toolchains}
            rules.check_runner(request.runner, gpus, toolchains, registered)
        unavailable = None
        if not upload.vouched_by:
            waits = request.waits_for_agent
            unavailable = await self.queues.refusal(facts, waits_for_agent=waits)
        return SubmissionBatch(upload, upload.scope(), slug, facts, at, unavailable)

    async def check_open(self) -> None:
        """Refuse a submission while intake is paused. Raises `Refused` and `Failed`."""
        rules.check_intake(await self.paused())

    async def paused(self) -> str | None:
        """Return why no submissions are accepted, None if they are. Raises `Failed`."""
        return await self._histories.state(subjects.audit(PLATFORM), rules.intake)

    async def published(self, slug: str) -> ProblemPublished:
        """Return the newest version of a problem.

        Raises `Refused` (`unknown_leaderboard`) and `Failed`.
        """
        return problems.newest_version(slug, await self._problem(slug))

    async def _problem(self, slug: str) -> problems.Problem:
        return await problems.load_problem(slug, self._histories.state)

    async def _take_in(self, batch: SubmissionBatch) -> SubmissionReceipts:
        """Decide on the quotas and append, until the decision holds.

        Requests of one account wait for each other in this process; the version of its quotas in
        the log detects those of other processes.
        """
        account_lock = self._account_locks.setdefault(batch.account, asyncio.Lock())
        async with account_lock:
            for attempt in range(DECISIONS_MAX):
                quotas_now = await self._quotas.load(batch.account, batch.at)
                batch = replace(batch, at=self._ports.clock())
                try:
                    return await self._try_append(batch, quotas_now)
                except (Refused, Conflict) as error:
                    batch, receipts = await self._find_replay(batch, quotas_now)
                    if receipts is not None:
                        return receipts
                    if isinstance(error, Refused):
                        is_full = error is batch.unavailable and error.code == "queue_full"
                        self.queues.turned_away += is_full
                        raise
                    await back_off(attempt)
        raise Failed(f"a quota changed {DECISIONS_MAX} times during the decision: try again")

    async def _try_append(
        self, batch: SubmissionBatch, quotas_now: QuotaState
    ) -> SubmissionReceipts:
        """Append the batch once, all of its events or none.

        Raises `Refused`, `Failed`, and `Conflict` if somebody used the quota meanwhile.
        """
        problem = await self._problem(batch.problem)
        if not batch.upload.vouched_by:
            # The time of the event decides, however long the upload took.
            _check_in_time(batch.problem, problem, batch.at)
        uses = quotas.take(batch.buckets, quotas_now.own, quotas_now.everybody, batch.at)
        opened = await self._quotas.open(batch.facts, quotas_now.own)
        if batch.unavailable is not None:
            raise batch.unavailable
        await self._ports.blobs.put(batch.upload.request.source, batch.requested[0].source.media)
        agg, corr = subjects.quota(batch.account), opened.submissions[0]
        # Of several events of one aggregate in a batch, only the first names a version.
        appends = [http_append(agg, opened, quotas_now.version, corr)]
        appends += [http_append(agg, use, None, use.submission) for use in uses]
        uses_by_submission = {use.submission: use for use in uses}
        for submission, received in batch.facts.items():
            use = uses_by_submission.get(submission)
            fact = structs.replace(received, class_=problem.queue_class(batch.at))
            fact = structs.replace(fact, bucket=use.bucket, cost=use.cost) if use else fact
            appends.append(http_append(subjects.submission(submission), fact, 0, submission))
        appender = Appender(self._ports.log, f"account:{batch.account}", lambda: batch.at)
        first = await appender.append(*appends) - len(batch.facts) + 1
        quotas_left = quotas_now._replace(own=quotas.fold_uses(quotas_now.own, [opened, *uses]))
        receipts = [
            _receipt(quotas_left, submission, first + position, fact, batch.at)
            for position, (submission, fact) in enumerate(batch.facts.items())
        ]
        version = batch.requested[0].problem_number
        return SubmissionReceipts(submissions=receipts, problem_version=version, replayed=False)

    async def _find_replay(
        self, batch: SubmissionBatch, quotas_now: QuotaState
    ) -> tuple[SubmissionBatch, SubmissionReceipts | None]:
        """Return the receipts of the same request within a day, so that nothing is paid twice.

        Otherwise return the batch under unused ids and no receipts. Raises `Refused`.
        """
        for use in range(batch.use, USES_MAX if batch.has_key else batch.use):
            batch = replace(batch, use=use)
            history = await self._ports.log.history(subjects.submission(next(iter(batch.facts))))
            if not history:
                return batch, None
            if (batch.at - history[0].envelope.at).total_seconds() < KEY_LIFE_S:
                return batch, await self._replays(batch, quotas_now)
        if batch.has_key:
            message = f"this Idempotency-Key was used on {USES_MAX} days: choose a new one"
            raise Refused("idempotency_key_reused", message)
        return batch, None

    async def _replays(self, batch: SubmissionBatch, quotas_now: QuotaState) -> SubmissionReceipts:
        receipts, versions = [], []
        for submission, requested in batch.facts.items():
            history = await self._ports.log.history(subjects.submission(submission))
            if not history:
                continue
            fact = history[0].fact
            assert isinstance(fact, SubmissionReceived)
            if fact.request_hash != requested.request_hash:
                message = "this Idempotency-Key was used for a different request"
                raise Refused("idempotency_key_reused", message)
            receipts.append(_receipt(quotas_now, submission, history[0].seq, fact, batch.at))
            versions.append(fact.problem_number)
        return SubmissionReceipts(submissions=receipts, problem_version=versions[0], replayed=True)


def _receipt(
    quotas_now: QuotaState, submission: str, number: int, fact: SubmissionReceived, at: datetime
) -> Receipt:
    """Return the receipt of a submission in the log, with what is left of its quota."""
    bucket = quotas.bucket_name(fact.problem, fact.gpu, fact.mode)
    path = f"/v1/submissions/{number}"
    return Receipt(
        number=number,
        id=submission,
        gpu=fact.gpu,
        state="received",
        deadline_at=fact.deadline_at,
        queue=None,
        quota=quotas_now.left(bucket, at),
        links=Links(self=path, events=f"{path}/events", cancel=f"{path}/cancel"),
    )


def _check_in_time(slug: str, problem: problems.Problem, at: datetime) -> None:
    if late := problems.deadline_refusal(slug, problem, at):
        raise late
