"""Reads and sets quotas: what is left of one's own, and the limits that operators set."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import chain
from typing import NamedTuple

from ingest.decisions import DecisionResult, Decisions
from ingest.histories import FoldedState, HistoryCache
from ingest.identity.access.feed import AccessFeed
from ingest.identity.caller import Caller
from ingest.ports import ACCOUNT, Ports, resolve_account
from ingest.quotas import rules
from ingest.quotas.rules import LimitLevels, PhaseQuota, Quota
from shared import subjects
from shared.api.quotas import Balance, OpenSubmissions
from shared.contests.definition import Contest, phase_at
from shared.events import (
    CATALOGUE,
    QuotaLimitSet,
    QuotaTaken,
    SubmissionReceived,
    SubmissionsOpened,
)


class QuotaState(NamedTuple):
    """An account's quotas with their version, and the limits of its roles and of everybody."""

    own: Quota
    version: int
    general: LimitLevels

    def left(self, bucket: str, at: datetime) -> Balance | None:
        """Return what is left of a bucket at a time, or None if it is unlimited."""
        return rules.balance(bucket, self.own, self.general, at)

    def left_of_each(
        self, submissions: Mapping[str, SubmissionReceived], at: datetime
    ) -> dict[str, Balance | None]:
        """Return what is left of the bucket of each submission, by id."""
        return {id_: self.left(name, at) for id_, name in bucket_names(submissions).items()}


class QuotaCharge(NamedTuple):
    """What submissions take of their account's quotas, and what is left for each by its id.

    `own` has the quotas of the account after that; `phase_uses` is what they take in the phase of a
    contest, at a version of the history with that id.
    """

    opened: SubmissionsOpened
    uses: Sequence[QuotaTaken]
    left: Mapping[str, Balance | None]
    own: Quota
    phase_uses: Sequence[QuotaTaken] = ()
    phase_key: str = ""
    phase_version: int = 0


def bucket_names(submissions: Mapping[str, SubmissionReceived]) -> dict[str, str]:
    """Return the bucket of each submission, by id."""
    return {
        id_: rules.bucket_name(submission.problem, submission.gpu, submission.mode)
        for id_, submission in submissions.items()
    }


@dataclass(frozen=True)
class Quotas:
    """The commands about quotas, and what is left of them."""

    ports: Ports
    decisions: Decisions
    histories: HistoryCache
    feed: AccessFeed
    open_max: int

    async def load(
        self,
        account: str,
        at: datetime,
        known: FoldedState[Quota] | None = None,
        roles: Collection[str] | None = None,
    ) -> QuotaState:
        """Return the current quotas of an account. Raises `Failed`.

        With `known`, its own quotas are these, which may be out of date, and are not read. Its
        `roles` are looked up unless they are given.
        """
        fold = partial(rules.fold_uses, at=at)
        if roles is None:
            roles = self.feed.rights().roles.get(account, ())
        roles = sorted(roles)
        aggregates = [
            subjects.quota(subjects.EVERYBODY),
            *(subjects.role_quota(role) for role in roles),
            *(() if known else (subjects.quota(account),)),
        ]
        everybody, *read = await asyncio.gather(
            *(self.histories.load(aggregate, Quota(), fold) for aggregate in aggregates)
        )
        own = known or read.pop()
        general = [[role.state.limits for role in read], [everybody.state.limits]]
        return QuotaState(own.state, own.seq, general)

    async def balances(self, caller: Caller, buckets: Sequence[str] = ()) -> list[Balance]:
        """Return what is left of these buckets, or of every quota. Raises `Failed`."""
        at = self.decisions.clock()
        state = await self.load(caller.account or subjects.EVERYBODY, at)
        if not buckets:
            return rules.balances(state.own, state.general, at)
        limited = (state.left(bucket, at) for bucket in buckets)
        return [balance for balance in limited if balance is not None]

    async def find_ended(self, own: Quota) -> frozenset[str]:
        """Return which of the submissions counted as open are over. Raises `Failed`."""
        aggregates = [subjects.submission(submission) for submission in own.opened]
        newest = await self.ports.log.newest(aggregates)
        return frozenset(
            subjects.last_token(aggregate)
            for aggregate, event in newest.items()
            if CATALOGUE[event.envelope.type].is_terminal
        )

    async def load_phase(
        self,
        contest: Contest,
        contestant: str,
        at: datetime,
        earlier: Iterable[Collection[str]],
    ) -> PhaseQuota | None:
        """Return the quota of a contestant in the phase of a contest at an instant.

        `earlier` are the other contestants that each of its members was, or was in, before.
        None outside of phases and for "", who takes no part. Raises `Failed`.
        """
        phase = phase_at(contest, at)
        if phase is None or not contestant:
            return None
        members = [list(own) for own in earlier]
        keys = {
            name: subjects.contest_quota_id(contest.slug, name)
            for name in (contestant, *chain.from_iterable(members))
        }
        loads = (
            self.histories.load(subjects.quota(key), Quota(), rules.fold_uses)
            for key in keys.values()
        )
        folded = dict(zip(keys, await asyncio.gather(*loads), strict=True))
        own = folded[contestant]
        uses_before = [[folded[name].state for name in names] for names in members]
        return PhaseQuota(keys[contestant], contest, phase, own.state, own.seq, uses_before)

    async def charge(
        self,
        submissions: Mapping[str, SubmissionReceived],
        state: QuotaState,
        at: datetime,
        phase: PhaseQuota | None = None,
    ) -> QuotaCharge:
        """Return what new submissions take of these quotas, all of them or none.

        It looks for ends of open submissions only if there would be too many. Raises `Refused`
        (`quota_exceeded`, `too_many_open`) and `Failed`.
        """
        buckets = bucket_names(submissions)
        uses = rules.take(buckets, state.own, state.general, at)
        is_crowded = len(state.own.opened) + len(submissions) > self.open_max
        ended = await self.find_ended(state.own) if is_crowded else ()
        opened = rules.open_submissions(submissions, state.own, ended, self.open_max)
        own = rules.fold_uses(state.own, [opened, *uses], at)
        left = {
            id_: rules.balance(bucket, own, state.general, at) for id_, bucket in buckets.items()
        }
        if phase is None:
            return QuotaCharge(opened, uses, left, own)
        phase_buckets = {
            id_: rules.phase_bucket(
                submission.problem, phase.phase_name, rules.CATEGORIES[submission.mode]
            )
            for id_, submission in submissions.items()
        }
        phase_uses = rules.take_in_phase(phase_buckets, phase)
        after = rules.fold_uses(phase.uses, phase_uses)
        for id_, bucket in phase_buckets.items():
            in_phase, usual = phase.balance(bucket, after), left[id_]
            if in_phase and (usual is None or in_phase.remaining < usual.remaining):
                left[id_] = in_phase
        return QuotaCharge(opened, uses, left, own, phase_uses, phase.key, phase.version)

    async def open_submissions(self, caller: Caller) -> OpenSubmissions:
        """Return how many submissions of a caller are open, and may be. Raises `Failed`."""
        own = (await self.load(caller.account or subjects.EVERYBODY, self.decisions.clock())).own
        used = len(own.opened) - len(await self.find_ended(own))
        return OpenSubmissions(used=used, limit=self.open_max)

    async def limit(
        self, participant: str | None, command: QuotaLimitSet, operator: str
    ) -> DecisionResult:
        """Set the quota limit of a participant, or of everybody. Raises `Refused` and `Failed`."""
        people = self.ports.account_store
        if participant is None:
            account = subjects.EVERYBODY
        elif ACCOUNT.match(participant):
            account = await resolve_account(people, self.ports.log, participant)
        else:  # A limit may be set before its participant exists.
            account = await people.open_account(participant)
        return await self._set_limit(subjects.quota(account), command, operator)

    async def limit_role(self, role: str, command: QuotaLimitSet, operator: str) -> DecisionResult:
        """Set the quota limit of each participant with a role. Raises `Refused` and `Failed`."""
        return await self._set_limit(subjects.role_quota(role), command, operator)

    async def limit_contestant(
        self, contest: Contest, contestant: str, command: QuotaLimitSet, operator: str
    ) -> DecisionResult:
        """Set the limit of a contestant in phases of a contest. Raises `Refused` and `Failed`."""
        rules.check_contestant_limit(command, contest)
        aggregate = subjects.quota(subjects.contest_quota_id(contest.slug, contestant))
        return await self.decisions.make(aggregate, rules.CONTESTANT_DECIDER, [command], operator)

    async def _set_limit(
        self, aggregate: str, command: QuotaLimitSet, operator: str
    ) -> DecisionResult:
        return await self.decisions.make(aggregate, rules.OPERATOR_DECIDER, [command], operator)
