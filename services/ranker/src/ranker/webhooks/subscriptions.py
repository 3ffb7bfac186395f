"""Webhooks and what their owners may see, folded from the log; the payloads that they receive."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias, get_args

from shared import events
from shared.event_log import RecordedEvent
from shared.leaderboards import Leaderboard, fold_leaderboard
from shared.subjects import derive_id, last_token
from shared.wire import is_genuine

AGGREGATES = ("account.>", "invite.>", "problem.>", "webhook.>")


class Webhook(NamedTuple):
    """A webhook; without problems it covers all."""

    id: str
    account: str
    kinds: frozenset[str]
    problems: frozenset[str]
    seq: int
    at: datetime


class Payload(NamedTuple):
    """One message under one id: for an account, or for all who see a leaderboard.

    `seq` is the event it comes from, None for a deadline that passed.
    """

    event: str
    kind: str
    at: datetime
    problem: str
    data: dict[str, Any]
    account: str | None = None
    seq: int | None = None


@dataclass
class Subscriptions:
    """The webhooks, and what their owners may see now."""

    seq: int = 0
    hooks: dict[str, Webhook] = field(default_factory=dict)
    bans: dict[str, datetime | None] = field(default_factory=dict)
    boards: dict[str, Leaderboard] = field(default_factory=dict)
    invites: dict[str, tuple[str, ...]] = field(default_factory=dict)
    redeemed: dict[str, set[str]] = field(default_factory=dict)
    merged: dict[str, str] = field(default_factory=dict)

    def account_of(self, account: str) -> str:
        """The account that another one is part of; itself if it is not merged."""
        return self.merged.get(account, account)

    def parts_of(self, account: str) -> list[str]:
        """The accounts that belong to the participant of this one."""
        into = self.account_of(account)
        return [into, *(part for part, other in self.merged.items() if other == into)]

    def sees(self, account: str, problem: str) -> bool:
        """Whether an account can see a leaderboard: it is public, theirs, or they joined it."""
        board, parts = self.boards.get(problem, Leaderboard()), self.parts_of(account)
        if not board.is_closed or board.owner in parts:
            return True
        joined = (invite for part in parts for invite in self.redeemed.get(part, ()))
        return any(problem in self.invites.get(invite, ()) for invite in joined)

    def is_banned(self, account: str, at: datetime) -> bool:
        """Whether an account is banned."""
        account = self.account_of(account)
        if account not in self.bans:
            return False
        until_at = self.bans[account]
        return until_at is None or at < until_at

    def subscribers(self, kind: str) -> frozenset[str]:
        """The accounts with a webhook for a kind."""
        hooks = (hook for hook in self.hooks.values() if kind in hook.kinds)
        return frozenset(self.account_of(hook.account) for hook in hooks)

    def recipients(self, payload: Payload, at: datetime) -> list[Webhook]:
        """The webhooks that receive a payload: added before it, with owners who may see it."""
        return [hook for hook in self.hooks.values() if self._receives(hook, payload, at)]

    def _receives(self, hook: Webhook, payload: Payload, at: datetime) -> bool:
        is_subscribed = payload.kind in hook.kinds
        is_owner = payload.account in (None, self.account_of(hook.account))
        is_in_scope = not hook.problems or payload.problem in hook.problems
        is_new = hook.at < payload.at if payload.seq is None else hook.seq < payload.seq
        if not (is_subscribed and is_owner and is_in_scope and is_new):
            return False
        return self.may_receive(hook.account, payload.problem, at)

    def may_receive(self, account: str, problem: str, at: datetime) -> bool:
        """Whether an account may receive news about a leaderboard now; "" for none."""
        return not self.is_banned(account, at) and (not problem or self.sees(account, problem))

    def deadlines_passed(self, after: datetime, until: datetime) -> Iterable[tuple[str, datetime]]:
        """The leaderboards whose deadline passed in between."""
        for slug, board in self.boards.items():
            ends_at = board.deadline_at
            if ends_at is not None and after < ends_at <= until and not board.is_archived:
                yield slug, ends_at


SubscriptionFact: TypeAlias = (
    events.WebhookAdded
    | events.WebhookRemoved
    | events.AccountBanned
    | events.AccountUnbanned
    | events.AccountMerged
    | events.MergeUndone
    | events.InviteIssued
    | events.InviteRedeemed
    | events.InviteRevoked
    | events.ProblemPublished
    | events.LeaderboardChanged
    | events.LeaderboardArchived
)
FOLDED = frozenset(kind.__name__ for kind in get_args(SubscriptionFact))


def evolve(  # noqa: C901  (one case for each event)
    subscriptions: Subscriptions, event: RecordedEvent
) -> None:
    """Fold one more event; an event folded before changes nothing. Raises UnknownEvent."""
    if event.seq <= subscriptions.seq:
        return
    subscriptions.seq = event.seq
    if event.envelope.type not in FOLDED or not is_genuine(event.envelope):
        return
    id_ = last_token(event.envelope.aggregate)
    match event.fact:
        case events.WebhookAdded() as fact:
            kinds, problems = frozenset(fact.kinds), frozenset(fact.problems)
            subscriptions.hooks[id_] = Webhook(
                id_, fact.account, kinds, problems, event.seq, event.envelope.at
            )
        case events.WebhookRemoved():
            subscriptions.hooks.pop(id_, None)
        case events.AccountBanned() as fact:
            subscriptions.bans[id_] = fact.until_at
        case events.AccountUnbanned():
            subscriptions.bans.pop(id_, None)
        case events.AccountMerged() as fact:
            subscriptions.merged[id_] = fact.into
        case events.MergeUndone():
            subscriptions.merged.pop(id_, None)
        case events.InviteIssued() as fact:
            subscriptions.invites[id_] = tuple(fact.problems)
        case events.InviteRedeemed() as fact:
            subscriptions.redeemed.setdefault(fact.account, set()).add(id_)
        case events.InviteRevoked():
            subscriptions.invites.pop(id_, None)
        case _:
            fold_leaderboard(subscriptions.boards, event)


ENDED, RANKED, HELD = "submission.ended", "submission.ranked", "submission.held"
ENTRY_OVERTAKEN = "entry.overtaken"
OPENED, VERSION = "problem.opened", "problem.version_published"
MOVED, CLOSED = "problem.deadline_moved", "problem.closed"
APPLIED = "rejudge.applied"
END = "SubmissionFinished"
REINSTATED_TYPES = ("SubmissionReleased", "SubmissionRestored")
SUBMISSION_TYPES = frozenset((END, *REINSTATED_TYPES, "SubmissionHeld"))
PROBLEM_TYPES = frozenset(("ProblemPublished", "LeaderboardChanged", "LeaderboardArchived"))
REJUDGED = "RejudgeApplied"
TYPES = SUBMISSION_TYPES | PROBLEM_TYPES | {REJUDGED}

Row = Mapping[str, Any]


def kinds_for_event(event: RecordedEvent, row: Row) -> list[str]:
    """The public kinds of a submission's event; `row` is the submission as it is now.

    A submission that left its leaderboard meanwhile is not reported as ranked.
    """
    kind, fact = event.envelope.type, event.fact
    if kind == "SubmissionHeld":
        return [HELD]
    kinds = [ENDED] if kind == END else []
    if isinstance(fact, events.SubmissionFinished) and fact.is_held:
        kinds.append(HELD)
    elif row["mode"] == "ranked" and row["counts"]:
        kinds.append(RANKED)
    return kinds


def submission_payload(event: RecordedEvent, kind: str, row: Row, rank: int | None) -> Payload:
    """The payload of a submission's event, for its owner."""
    data = {"number": row["number"], "mode": row["mode"]}
    if kind in (ENDED, RANKED):
        names = ("outcome", "verdict", "code", "is_eligible", "score_us")
        data |= {name: row[name] for name in names}
    if kind == RANKED:
        data |= {"rank": rank}
    return _owner_payload(event, kind, kind, row["account"], _submission_fields(row) | data)


def overtaken_payload(event: RecordedEvent, row: Row, passed: Row) -> Payload:
    """The payload for the owner of an entry that another submission overtook."""
    data = {
        "number": passed["number"],
        "score_us": passed["score_us"],
        "by_number": row["number"],
        "by_score_us": row["score_us"],
    }
    cause = f"{ENTRY_OVERTAKEN}/{passed['account']}"
    fields = _submission_fields(row) | data
    return _owner_payload(event, cause, ENTRY_OVERTAKEN, passed["account"], fields)


def _submission_fields(row: Row) -> dict[str, Any]:
    return {
        "problem": row["problem"],
        "problem_version": row["problem_number"],
        "gpu": row["gpu"],
        "url": f"/v1/submissions/{row['number']}",
    }


def _owner_payload(
    event: RecordedEvent, cause: str, kind: str, account: str, data: dict[str, Any]
) -> Payload:
    id_, at = derive_id(event.envelope.id, cause), event.envelope.at
    return Payload(id_, kind, at, data["problem"], data, account, event.seq)


def problem_payloads(event: RecordedEvent) -> Iterator[Payload]:
    """The payloads of a problem's event, for all who see its leaderboard."""
    fact, slug = event.fact, last_token(event.envelope.aggregate)
    match fact:
        case events.ProblemPublished():
            kind = OPENED if fact.number == 1 else VERSION
            data = {"problem_version": fact.number, "title": fact.title, "gpus": fact.gpus}
            yield _leaderboard_payload(event, kind, slug, data)
        case events.LeaderboardChanged():
            if fact.visibility == "public":
                yield _leaderboard_payload(event, OPENED, slug, {})
            if fact.has_deadline is not None:
                ends_at = fact.deadline_at and fact.deadline_at.isoformat()
                yield _leaderboard_payload(event, MOVED, slug, {"deadline_at": ends_at})
        case events.LeaderboardArchived():
            yield _leaderboard_payload(event, CLOSED, slug, {"why": "archived"})


def rejudge_payload(event: RecordedEvent, row: Row) -> Payload:
    """The payload of an applied rejudge, for all who see the leaderboard."""
    data = {
        "rejudge": row["id"],
        "from_version": row["from_number"],
        "to_version": row["to_number"],
        "count": row["count"],
        "changed_count": row["changed_count"],
    }
    return _leaderboard_payload(event, APPLIED, row["problem"], data)


def _leaderboard_payload(
    event: RecordedEvent, kind: str, slug: str, data: dict[str, Any]
) -> Payload:
    fields = {"problem": slug, **data, "url": f"/v1/problems/{slug}"}
    id_, at = derive_id(event.envelope.id, kind), event.envelope.at
    return Payload(id_, kind, at, slug, fields, seq=event.seq)


def deadline_payload(slug: str, ended_at: datetime) -> Payload:
    """The payload of a deadline that passed; its id does not depend on who notices it."""
    instant = ended_at.isoformat()
    data = {
        "problem": slug,
        "why": "deadline",
        "deadline_at": instant,
        "url": f"/v1/problems/{slug}",
    }
    return Payload(derive_id(f"problem/{slug}/{instant}", CLOSED), CLOSED, ended_at, slug, data)
