"""Rules of merges: an account becomes part of another one, and its own again.

Each account is part of one other at most, and what others are part of is part of none: there are
no chains and no loops. What only one account has is looked up through the merge, such as tokens,
submissions and invites. What both could use twice, or escape from, is written to both: quotas,
device time, bans and consents.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from ingest.evaluations.rules import Budget, DeviceTimeUse
from ingest.identity.accounts.rules import ACCOUNT_DECIDER, Account
from ingest.identity.bans import ban_at
from ingest.identity.scopes import STAFF_ROLES
from ingest.quotas.rules import Quota, QuotaUse
from shared import events, subjects
from shared.errors import Refused

UNDO_DAYS = 7
OFFER_S = 15 * 60.0
PARTS_MAX = 10
# An event holds so many uses, which is a fifth of its limit in bytes.
USES_PER_EVENT = 250


class AggregateFact(NamedTuple):
    """An event to append, and its aggregate."""

    aggregate: str
    fact: events.Fact


@dataclass(frozen=True)
class Side:
    """An account that is merged or separated, as the log has it.

    `merged` is the merge that it is part of, `received` has those that it received, by account, and
    `bans_before` the bans that it had before these. `open_count` counts its submissions and
    evaluations that are not over, and `contests` are those in which it has a part.
    """

    id: str
    account: Account = field(default_factory=Account)
    given: Mapping[str, events.ConsentGiven] = field(default_factory=dict)
    merged: events.AccountMerged | None = None
    received: Mapping[str, events.MergeReceived] = field(default_factory=dict)
    bans_before: Mapping[str, events.AccountBanned | None] = field(default_factory=dict)
    quota: Quota = field(default_factory=Quota)
    budget: Budget = field(default_factory=Budget)
    open_count: int = 0
    contests: Sequence[str] = ()


def fold_side(side: Side, facts: Iterable[events.Fact]) -> Side:
    """Return a side after these events of its account."""
    for fact in facts:
        side = replace(side, account=ACCOUNT_DECIDER.evolve(side.account, fact))
        match fact:
            case events.ConsentGiven():
                side = replace(side, given={**side.given, fact.problem: fact})
            case events.AccountMerged():
                side = replace(side, merged=fact)
            case events.MergeUndone():
                side = replace(side, merged=None)
            case events.MergeReceived():
                side = replace(
                    side,
                    received={**side.received, fact.account: fact},
                    bans_before={**side.bans_before, fact.account: side.account.ban},
                )
            case events.MergeReturned():
                parts = {id_: it for id_, it in side.received.items() if id_ != fact.account}
                side = replace(side, received=parts)
    return side


def check_part(part: Side) -> None:
    """Refuse an account that cannot become part of another one."""
    if part.merged is not None:
        raise Refused("wrong_state", "this account is part of another one already")
    if part.received:
        message = "other accounts are part of this one: make the code in the other account"
        raise Refused("wrong_state", message)
    if part.account.roles:
        roles = " and ".join(sorted(part.account.roles))
        message = f"an account with a role ({roles}) cannot become part of another one: make the "
        raise Refused("wrong_state", f"{message}code in the other account, or give up the role")


def _check_pair(part: Side, into: Side, at: datetime, *, is_operator: bool) -> None:
    if part.id == into.id:
        message = "this is the code of your own account: enter it in the other one"
        raise Refused("wrong_state", message, "code")
    if into.merged is not None:
        raise Refused("wrong_state", "the account that would remain is part of another one")
    if not STAFF_ROLES.isdisjoint(into.account.roles):
        message = "nothing is merged into the account of an operator: revoke the role first"
        raise Refused("wrong_state", message)
    if len(into.received) >= PARTS_MAX:
        raise Refused("wrong_state", f"at most {PARTS_MAX} accounts are part of another one")
    if not is_operator and (part.account.ban_at(at) or into.account.ban_at(at)):
        message = "one of these accounts is banned: only an operator may merge them"
        raise Refused("user_banned", message)
    if part.contests:
        message = (
            f"the account that becomes part of another one has a part in {', '.join(part.contests)}"
            ": wait until the contest is over, or make the code in the other account"
        )
        raise Refused("wrong_state", message)
    if part.open_count or into.open_count:
        message = (
            f"{part.open_count + into.open_count} submissions and evaluations of these accounts "
            "are not over: wait until they have ended, or cancel them"
        )
        raise Refused("wrong_state", message)


def merge(
    part: Side, into: Side, at: datetime, reason: str = "", *, is_operator: bool = False
) -> list[AggregateFact]:
    """Return the events that make one account part of another. Raises `Refused`."""
    check_part(part)
    _check_pair(part, into, at, is_operator=is_operator)
    own, other = subjects.account(part.id), subjects.account(into.id)
    consents = [part.given[it] for it in part.account.consents if it not in into.account.consents]
    ban = part.account.ban_at(at)
    is_ban_carried = ban is not None and _outlasts(ban, into.account.ban_at(at))
    undo_until_at = at + timedelta(days=UNDO_DAYS)
    facts = [
        AggregateFact(
            own, events.AccountMerged(into=into.id, undo_until_at=undo_until_at, reason=reason)
        ),
        AggregateFact(
            other,
            events.MergeReceived(
                account=part.id,
                consents=[consent.problem for consent in consents],
                has_its_ban=is_ban_carried,
            ),
        ),
        *(AggregateFact(other, consent) for consent in consents),
    ]
    if ban is not None and is_ban_carried:
        facts.append(AggregateFact(other, ban))
    limits = [
        events.SharedLimit(bucket=bucket, limit=limit.limit, window_s=limit.window_s)
        for bucket, limit in part.quota.limits.items()
    ]
    return [*facts, *_share(part, into, at, limits), *_share(into, part, at)]


def undo(part: Side, into: Side, at: datetime, reason: str = "") -> list[AggregateFact]:
    """Return the events that make an account its own again. Raises `Refused`."""
    if part.merged is None or part.id not in into.received:
        raise Refused("wrong_state", "this account is not part of another one")
    if at >= part.merged.undo_until_at:
        until = f"{part.merged.undo_until_at:%Y-%m-%d %H:%M} UTC"
        raise Refused("wrong_state", f"this merge could be undone until {until}")
    undone = events.MergeUndone(into=into.id, reason=reason)
    facts = [
        *(AggregateFact(subjects.account(part.id), it) for it in [undone, *_take(part, into, at)]),
        *(AggregateFact(subjects.account(into.id), it) for it in _give_back(part, into, at)),
    ]
    return [*facts, *_share(part, into, at), *_share(into, part, at)]


def _take(part: Side, into: Side, at: datetime) -> Iterable[events.Fact]:
    """Yield what holds for an account that is its own again: bans, and withdrawn consents."""
    ban, own_ban = into.account.ban_at(at), part.account.ban_at(at)
    if ban is not None and _outlasts(ban, own_ban):
        yield ban
    for problem, digest in part.account.consents.items():
        # It was withdrawn for the whole participant.
        if problem not in into.account.consents:
            yield events.ConsentWithdrawn(problem=problem, digest=digest)


def _give_back(part: Side, into: Side, at: datetime) -> Iterable[events.Fact]:
    """Yield what the other account no longer has: consents and the ban that came with a merge."""
    received, ban = into.received[part.id], into.account.ban_at(at)
    yield events.MergeReturned(account=part.id)
    for problem in received.consents:
        if problem in into.account.consents:
            digest = into.account.consents[problem]
            yield events.ConsentWithdrawn(problem=problem, digest=digest)
    if ban is None or not received.has_its_ban or ban != part.account.ban_at(at):
        return
    earlier = ban_at(into.bans_before[part.id], at)
    if earlier is not None:
        yield earlier
    else:
        yield events.AccountUnbanned(reason="the merge with the banned account was undone")


def _outlasts(ban: events.AccountBanned, other: events.AccountBanned | None) -> bool:
    """Return whether a ban that is in force ends after another one."""
    if other is None:
        return True
    if other.until_at is None:
        return False
    return ban.until_at is None or ban.until_at > other.until_at


def _share(
    giver: Side, receiver: Side, at: datetime, limits: Iterable[events.SharedLimit] = ()
) -> Iterable[AggregateFact]:
    """Yield the events after which what one account used counts for the other, too."""
    uses = [
        _shared_use(submission, use)
        for submission, use in giver.quota.taken.items()
        if use.until_at > at and submission not in receiver.quota.taken
    ]
    limits = list(limits)
    for start in range(0, max(1, len(uses)), USES_PER_EVENT):
        # Limits of earlier merges end, so an event without any use is needed, too.
        part_of_uses = uses[start : start + USES_PER_EVENT]
        fact = events.QuotaShared(account=giver.id, uses=part_of_uses, limits=limits)
        yield AggregateFact(subjects.quota(receiver.id), fact)
    times = [
        _shared_time(evaluation, use)
        for evaluation, use in giver.budget.uses.items()
        if use.until_at > at and evaluation not in receiver.budget.uses
    ]
    for start in range(0, len(times), USES_PER_EVENT):
        shared = events.DeviceTimeShared(
            account=giver.id, uses=times[start : start + USES_PER_EVENT]
        )
        yield AggregateFact(subjects.budget(receiver.id), shared)


def _shared_use(submission: str, use: QuotaUse) -> events.SharedUse:
    return events.SharedUse(
        submission=submission, bucket=use.bucket, cost=use.cost, window_until_at=use.until_at
    )


def _shared_time(evaluation: str, use: DeviceTimeUse) -> events.SharedDeviceTime:
    return events.SharedDeviceTime(
        evaluation=evaluation, token=use.token, device_s=use.device_s, until_at=use.until_at
    )
