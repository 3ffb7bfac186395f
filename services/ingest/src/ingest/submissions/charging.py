"""Decides what the submissions of a request take of its account's quotas."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from msgspec import structs

from ingest.contests.admission import enter
from ingest.contests.service import load_contest
from ingest.histories import FoldedState, HistoryCache
from ingest.ports import Ports
from ingest.problems.service import load_problem
from ingest.quotas.rules import Quota
from ingest.quotas.service import QuotaCharge, Quotas
from ingest.submissions.admission import GpuQueues, QueueReport
from ingest.submissions.resolution import SubmissionBatch
from shared import subjects
from shared.api.quotas import Balance
from shared.errors import Refused
from shared.event_log import RecordedEvent
from shared.events import SubmissionReceived
from shared.subjects import derive_id

# For this long a key stands for the first request that used it.
KEY_LIFE_S = 24 * 3600
# A client that always sends the same key must choose another one after about a year.
USES_MAX = 400


class Repeat(NamedTuple):
    """The submissions that a request under an Idempotency-Key already has in the log, by id."""

    accepted: Mapping[str, RecordedEvent]
    left: Mapping[str, Balance | None]


class Charge(NamedTuple):
    """What the submissions of a request, by id, take of the quotas at one version of these."""

    submissions: Mapping[str, SubmissionReceived]
    quotas: QuotaCharge
    version: int
    at: datetime


class Charging:
    """Charges requests to the quotas of their accounts.

    `known` has the quotas of accounts after their last charge. Methods may raise `Refused` and
    `Failed`.
    """

    def __init__(
        self, ports: Ports, histories: HistoryCache, quotas: Quotas, queues: GpuQueues
    ) -> None:
        self.known: dict[str, FoldedState[Quota]] = {}
        self._ports = ports
        self._histories = histories
        self._quotas = quotas
        self._queues = queues

    async def charge(self, batch: SubmissionBatch, queues: QueueReport) -> Charge | Repeat:
        """Return what a request takes now; the repeat of an accepted request takes nothing.

        Quotas that are known from the last charge are not read again: the append names their
        version, so the log refuses it if they have changed. Refusals and repeats append nothing,
        and are decided on quotas that were just read.
        """
        state, (ids, recorded), problem = await asyncio.gather(
            self._quotas.load(
                batch.account, self._ports.clock(), self.known.get(batch.account), batch.roles
            ),
            self._find_repeat(batch),
            load_problem(batch.problem, self._histories.state),
        )
        contest = None
        if problem.contest:
            contest = await load_contest(problem.contest, self._histories)
        at = self._ports.clock()
        if recorded:
            accepted = {id_: received(event) for id_, event in recorded.items()}
            state = await self._quotas.load(batch.account, at, roles=batch.roles)
            return Repeat(recorded, state.left_of_each(accepted, at))
        # The time of the event decides, however long the upload took.
        entered = enter(
            batch.submissions, problem, contest, at, is_for_operator=batch.is_for_operator
        )
        submissions = dict(zip(ids, entered, strict=True))
        phase = None
        if contest is not None and contest.contest is not None and entered[0].contest:
            contestant = entered[0].contestant
            phase = await self._quotas.load_phase(
                contest.contest, contestant, at, contest.earlier_contestants(contestant)
            )
        try:
            charged = await self._quotas.charge(submissions, state, at, phase)
        except Refused:
            state = await self._quotas.load(batch.account, at, roles=batch.roles)
            charged = await self._quotas.charge(submissions, state, at, phase)
        if not batch.is_for_operator:
            self._queues.check(queues)
        for use in charged.uses:
            submission = submissions[use.submission]
            submissions[use.submission] = structs.replace(
                submission, bucket=use.bucket, cost=use.cost
            )
        for use in charged.phase_uses:
            submission = submissions[use.submission]
            submissions[use.submission] = structs.replace(submission, contest_bucket=use.bucket)
        return Charge(submissions, charged, state.version, at)

    async def _find_repeat(
        self, batch: SubmissionBatch
    ) -> tuple[Sequence[str], Mapping[str, RecordedEvent]]:
        """Return ids for the submissions of a request, and those that it has in the log already.

        A key stands for the same request for a day; after that its ids are new ones. Raises
        `Refused` (`idempotency_key_reused`) for another request, and `Failed`.
        """
        if not batch.has_key:
            return _derive_ids(batch, 0), {}
        for use in range(USES_MAX):
            ids = _derive_ids(batch, use)
            history = await self._ports.log.history(subjects.submission(ids[0]))
            if not history:
                return ids, {}
            age = self._ports.clock() - history[0].envelope.at
            if age.total_seconds() < KEY_LIFE_S:
                return ids, await self._load_repeat(batch, ids)
        message = f"this Idempotency-Key was used on {USES_MAX} days: choose a new one"
        raise Refused("idempotency_key_reused", message)

    async def _load_repeat(
        self, batch: SubmissionBatch, ids: Sequence[str]
    ) -> Mapping[str, RecordedEvent]:
        """Return the first event of each submission. Raises `Refused` if the request differs."""
        recorded = {}
        for id_, submission in zip(ids, batch.submissions, strict=True):
            history = await self._ports.log.history(subjects.submission(id_))
            if not history:
                continue
            if received(history[0]).request_hash != submission.request_hash:
                message = "this Idempotency-Key was used for a different request"
                raise Refused("idempotency_key_reused", message)
            recorded[id_] = history[0]
        return recorded


def _derive_ids(batch: SubmissionBatch, use: int) -> Sequence[str]:
    """Return the ids of a request's submissions; `use` counts the earlier days of its key."""
    scope = f"{batch.scope} {use}" if use else batch.scope
    return [derive_id(scope, str(index)) for index in range(len(batch.submissions))]


def received(event: RecordedEvent) -> SubmissionReceived:
    """Return the first event of a submission."""
    assert isinstance(event.fact, SubmissionReceived), "a submission begins with this event"
    return event.fact
