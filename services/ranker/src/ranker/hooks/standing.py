"""Who wants to be told of what, and who may: folded from the log, for nothing but webhooks."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from shared import events
from shared.event_log import Recorded
from shared.leaderboards import Leaderboard, fold_leaderboard
from shared.subjects import last_token
from shared.wire import is_genuine

AGGREGATES = ("account.>", "invite.>", "problem.>", "webhook.>")


class Hook(NamedTuple):
    """A webhook; no problems are all of them."""

    id: str
    account: str
    kinds: frozenset[str]
    problems: frozenset[str]
    seq: int
    at: datetime


class Telling(NamedTuple):
    """One thing to be told, under one id: to an account, or to all who see a leaderboard.

    `seq` is the event it comes from, None for what time alone brought.
    """

    event: str
    kind: str
    at: datetime
    problem: str
    data: dict[str, Any]
    account: str | None = None
    seq: int | None = None


@dataclass
class Standing:
    """The webhooks, and what their owners may see now."""

    seq: int = 0
    hooks: dict[str, Hook] = field(default_factory=dict)
    bans: dict[str, datetime | None] = field(default_factory=dict)
    boards: dict[str, Leaderboard] = field(default_factory=dict)
    invites: dict[str, tuple[str, ...]] = field(default_factory=dict)
    redeemed: dict[str, set[str]] = field(default_factory=dict)

    def sees(self, account: str, problem: str) -> bool:
        """Whether a leaderboard exists for an account: it is public, theirs, or they joined it."""
        board = self.boards.get(problem, Leaderboard())
        if not board.is_closed or board.owner == account:
            return True
        joined = self.redeemed.get(account, ())
        return any(problem in self.invites.get(invite, ()) for invite in joined)

    def is_banned(self, account: str, at: datetime) -> bool:
        """Whether a ban of an account holds."""
        if account not in self.bans:
            return False
        until_at = self.bans[account]
        return until_at is None or at < until_at

    def wanted(self, kind: str) -> frozenset[str]:
        """The accounts that want to be told of a kind."""
        return frozenset(one.account for one in self.hooks.values() if kind in one.kinds)

    def ears(self, telling: Telling, at: datetime) -> list[Hook]:
        """The webhooks that are told: added before it, of who may know it."""
        return [hook for hook in self.hooks.values() if self._hears(hook, telling, at)]

    def _hears(self, hook: Hook, telling: Telling, at: datetime) -> bool:
        is_wanted = telling.kind in hook.kinds
        is_theirs = telling.account in (None, hook.account)
        is_there = not hook.problems or telling.problem in hook.problems
        is_new = hook.at < telling.at if telling.seq is None else hook.seq < telling.seq
        if not (is_wanted and is_theirs and is_there and is_new):
            return False
        return self.may_know(hook.account, telling.problem, at)

    def may_know(self, account: str, problem: str, at: datetime) -> bool:
        """Whether an account may be told now of what is about a leaderboard, "" for about none."""
        return not self.is_banned(account, at) and (not problem or self.sees(account, problem))

    def over(self, after: datetime, until: datetime) -> Iterable[tuple[str, datetime]]:
        """The leaderboards whose deadline passed in between."""
        for slug, board in self.boards.items():
            ends_at = board.deadline_at
            if ends_at is not None and after < ends_at <= until and not board.is_archived:
                yield slug, ends_at


def evolve(standing: Standing, event: Recorded) -> None:
    """Fold one more event in; one that was folded changes nothing. Errors: UnknownEvent."""
    if event.seq <= standing.seq:
        return
    standing.seq = event.seq
    change = CHANGES.get(event.envelope.type)
    if change is not None and is_genuine(event.envelope):
        change(standing, event, event.fact, last_token(event.envelope.agg))


def _added(standing: Standing, event: Recorded, fact: events.WebhookAdded, hook: str) -> None:
    kinds, problems = frozenset(fact.kinds), frozenset(fact.problems)
    at = event.envelope.at
    standing.hooks[hook] = Hook(hook, fact.account, kinds, problems, event.seq, at)


def _removed(standing: Standing, _event: Recorded, _fact: object, hook: str) -> None:
    standing.hooks.pop(hook, None)


def _banned(standing: Standing, _event: Recorded, fact: events.AccountBanned, who: str) -> None:
    standing.bans[who] = fact.until_at


def _unbanned(standing: Standing, _event: Recorded, _fact: object, account: str) -> None:
    standing.bans.pop(account, None)


def _invited(standing: Standing, _event: Recorded, fact: events.InviteIssued, one: str) -> None:
    standing.invites[one] = tuple(fact.problems)


def _redeemed(standing: Standing, _event: Recorded, fact: events.InviteRedeemed, one: str) -> None:
    standing.redeemed.setdefault(fact.account, set()).add(one)


def _uninvited(standing: Standing, _event: Recorded, _fact: object, invite: str) -> None:
    standing.invites.pop(invite, None)


def _board(standing: Standing, event: Recorded, _fact: object, _slug: str) -> None:
    fold_leaderboard(standing.boards, event)


CHANGES: dict[str, Callable[[Standing, Recorded, Any, str], None]] = {
    "WebhookAdded": _added,
    "WebhookRemoved": _removed,
    "AccountBanned": _banned,
    "AccountUnbanned": _unbanned,
    "InviteIssued": _invited,
    "InviteRedeemed": _redeemed,
    "InviteRevoked": _uninvited,
    "ProblemPublished": _board,
    "LeaderboardChanged": _board,
    "LeaderboardArchived": _board,
}
