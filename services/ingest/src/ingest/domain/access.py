"""Who may do what, as the log tells it: one fold of accounts, invites and problems."""

import hmac
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from ingest.domain.accounts import Account, until
from ingest.domain.callers import (
    BANNED_SCOPES,
    NOT_VOUCHED,
    STAFF_SCOPES,
    STAFF_VOUCHED,
    Caller,
    allowed,
    check_problem,
    check_scope,
    effective,
)
from ingest.domain.problems import unknown
from shared import events
from shared.errors import Refused
from shared.event_log import Recorded
from shared.leaderboards import Leaderboard, fold_leaderboard
from shared.subjects import last_token
from shared.wire import is_genuine

# For so long an ended token is remembered: nobody takes over its id or its secret meanwhile.
ENDED_KEPT_DAYS = 1
AGGREGATES = ("account.>", "invite.>", "problem.>")
CREATOR = "creator"
APPEAL = "`warpboard appeal ban TEXT`, or POST /v1/me/appeal, asks to look again"


class Token(NamedTuple):
    """A token that was issued; `number` is what people call it by."""

    number: int
    id: str
    hash: str
    account: str
    kind: str
    scopes: tuple[str, ...]
    issued_at: datetime
    expires_at: datetime | None
    problems: tuple[str, ...] = ()

    def is_live(self, at: datetime) -> bool:
        """Whether it has not expired."""
        return self.expires_at is None or at < self.expires_at


class Invite(NamedTuple):
    """An invite; `account` is who redeemed it."""

    id: str
    code_hash: str
    problems: tuple[str, ...]
    issued_at: datetime
    expires_at: datetime | None
    account: str | None = None
    claimed_at: datetime | None = None


@dataclass
class Access:
    """Who may do what; a revoked token or invite is in no table, whatever came after.

    `named` has the ids of tokens, each with the time when it ends or ended; None is never.
    """

    seq: int = 0
    tokens: dict[str, Token] = field(default_factory=dict)
    hashes: dict[str, dict[str, str]] = field(default_factory=dict)
    named: dict[str, datetime | None] = field(default_factory=dict)
    roles: dict[str, set[str]] = field(default_factory=dict)
    bans: dict[str, events.AccountBanned] = field(default_factory=dict)
    appeals: dict[str, str] = field(default_factory=dict)
    invites: dict[str, Invite] = field(default_factory=dict)
    codes: dict[str, str] = field(default_factory=dict)
    redeemed: dict[str, set[str]] = field(default_factory=dict)
    boards: dict[str, Leaderboard] = field(default_factory=dict)
    owned: dict[str, set[str]] = field(default_factory=dict)
    has_accounts: bool = False

    def token(self, digest: str, at: datetime) -> Token | None:
        """The live token with this hash; None if there is none, for whatever reason."""
        found = self.tokens.get(digest)
        if found is None or not hmac.compare_digest(found.hash, digest):
            return None
        return found if found.is_live(at) else None

    def drop_ended(self, at: datetime) -> None:
        """Forget the tokens that expired or were revoked more than a day before."""
        before = at - timedelta(days=ENDED_KEPT_DAYS)
        for token in [one for one in self.tokens.values() if not one.is_live(before)]:
            del self.tokens[token.hash]
            self.forget_hash(token.account, token.id)
        for id_ in [id_ for id_, ends_at in self.named.items() if ends_at and ends_at <= before]:
            del self.named[id_]

    def forget_hash(self, account: str, token: str) -> str | None:
        """Remove a token from those of an account, and return its hash; None if it has no such."""
        held = self.hashes.get(account, {})
        digest = held.pop(token, None)
        if not held:
            self.hashes.pop(account, None)
        return digest

    def is_free(self, fact: events.TokenIssued, at: datetime) -> bool:
        """Return whether nobody has a new token's id or its secret.

        What ended a day before is free, whether it was forgotten by then or not: every ingest
        that folds the same log comes to the same.
        """
        held, ends_at = self.tokens.get(fact.token_hash), self.named.get(fact.token)
        before = at - timedelta(days=ENDED_KEPT_DAYS)
        if (held and not held.is_live(before)) or (ends_at and ends_at <= before):
            self.drop_ended(at)
        return fact.token not in self.named and fact.token_hash not in self.tokens

    def tokens_of(self, account: str) -> list[Token]:
        """The tokens of an account that are not revoked, oldest first."""
        return sorted(self.tokens[digest] for digest in self.hashes.get(account, {}).values())

    def boards_of(self, account: str) -> frozenset[str]:
        """The leaderboards that an account sees even while they are closed."""
        invites = (self.invites[one] for one in self.redeemed.get(account, ()))
        joined = {slug for invite in invites for slug in invite.problems}
        return frozenset(joined | self.owned.get(account, set()))

    def invite(self, digest: str) -> Invite | None:
        """The invite whose code has this hash, None if there is none."""
        found = self.invites.get(self.codes.get(digest, ""))
        is_it = found is not None and hmac.compare_digest(found.code_hash, digest)
        return found if is_it else None

    def invites_to(self, slug: str) -> list[Invite]:
        """The invites to a leaderboard that are not revoked, oldest first."""
        return [one for one in self.invites.values() if slug in one.problems]

    def caller(self, token: Token, at: datetime) -> Caller:
        """Who acts by a live token."""
        roles = frozenset(self.roles.get(token.account, ()))
        scopes = effective(token.scopes, roles)
        found = Caller(
            account=token.account,
            scopes=scopes - STAFF_SCOPES if token.problems else scopes,
            roles=roles,
            kind="token",
            token=token.id,
            problems=frozenset(token.problems),
        )
        return self._seen(found, token.account, at)

    def local(self, account: str | None, name: str, at: datetime) -> Caller:
        """Who acts by a name that is believed: a creator, but no operator."""
        scopes, roles = allowed([CREATOR]), frozenset({CREATOR})
        found = Caller(account=account, name=name, scopes=scopes, roles=roles, kind="local")
        return found if account is None else self._seen(found, account, at)

    def vouched(self, account: str, provider: str, at: datetime, *shown: str) -> Caller:
        """Who acts through another service: an operator by roles that are `shown` there, too."""
        roles = frozenset(self.roles.get(account, ()))
        scopes = allowed(roles) - NOT_VOUCHED | allowed(roles.intersection(shown)) & STAFF_VOUCHED
        found = Caller(account=account, scopes=scopes, roles=roles, kind=provider)
        return self._seen(found, account, at)

    def _seen(self, caller: Caller, account: str, at: datetime) -> Caller:
        """The caller with the leaderboards they see; who is banned is left with very little."""
        ban = Account(self.bans.get(account)).ban_at(at)
        if ban is None:
            owned = frozenset(self.owned.get(account, ()))
            return replace(caller, boards=self.boards_of(account), owned=owned)
        return replace(
            caller,
            scopes=caller.scopes & BANNED_SCOPES,
            ban=f"you are banned, {until(ban)}: {ban.reason}; {self.appeals.get(account, APPEAL)}",
            wait_s=None if ban.until_at is None else (ban.until_at - at).total_seconds(),
        )

    def leaderboard(self, slug: str) -> Leaderboard:
        """A problem's. Errors: Refused `unknown_leaderboard`."""
        found = self.boards.get(slug)
        if found is None or not found.is_published:
            raise unknown(slug)
        return found

    def check_sees(self, caller: Caller, slug: str) -> None:
        """Refuse who may not see a leaderboard. Errors: Refused `unknown_leaderboard` too."""
        check_problem(caller, slug)
        is_closed = self.leaderboard(slug).is_closed
        if not is_closed or caller.is_staff or slug in caller.boards:
            return
        if caller.kind == "anonymous":
            what = f"{slug} is a closed leaderboard: send a member's token"
            raise Refused("missing_credential", what, "authorization")
        how = "`warpboard join CODE`, or POST /v1/user/join"
        what = f"{slug} is a closed leaderboard: join it with an invite, by {how}"
        raise Refused("no_access", what, "problem")

    def check_manages(self, caller: Caller, slug: str) -> None:
        """Refuse who may not change a leaderboard: it is its owner's and operators'."""
        check_problem(caller, slug)
        found = self.boards.get(slug)
        is_seen = caller.is_staff or found is None or not found.is_closed or slug in caller.boards
        if found is None or not found.is_published or not is_seen:
            raise unknown(slug)
        if not caller.may("admin:problems"):
            check_scope(caller, "author")
            self.check_owns(caller, slug)

    def check_owns(self, caller: Caller, slug: str) -> None:
        """Refuse what is another author's; what is nobody's yet is anybody's."""
        found = self.boards.get(slug)
        if found and found.is_published and found.owner != caller.account:
            raise Refused("not_yours", f"{slug} is another author's", "problem")


def evolve(access: Access, event: Recorded) -> None:
    """Fold one more event in; one that was folded changes nothing. Errors: UnknownEvent."""
    if event.seq <= access.seq:
        return
    access.seq = event.seq
    access.has_accounts = access.has_accounts or event.envelope.agg.startswith("account.")
    change = _CHANGES.get(event.envelope.type)
    if change is not None and is_genuine(event.envelope):
        change(access, event, event.fact, last_token(event.envelope.agg))


def _issued(access: Access, event: Recorded, fact: events.TokenIssued, account: str) -> None:
    # Of two that claim one secret, the first has it: nobody takes over what is another's. An id is
    # used once, so that who revokes it revokes all there is.
    if not access.is_free(fact, event.envelope.at):
        return
    access.named[fact.token] = fact.expires_at
    access.hashes.setdefault(account, {})[fact.token] = fact.token_hash
    access.tokens[fact.token_hash] = Token(
        number=event.seq,
        id=fact.token,
        hash=fact.token_hash,
        account=account,
        kind=fact.kind,
        scopes=tuple(fact.scopes),
        issued_at=event.envelope.at,
        expires_at=fact.expires_at,
        problems=tuple(fact.problems),
    )


def _revoked(access: Access, event: Recorded, fact: events.TokenRevoked, account: str) -> None:
    digest = access.forget_hash(account, fact.token)
    if digest is not None:
        del access.tokens[digest]
    at = event.envelope.at
    ends_at = access.named.get(fact.token)
    # An id that may have been forgotten by now is treated as one that was.
    is_forgotten = ends_at is not None and ends_at <= at - timedelta(days=ENDED_KEPT_DAYS)
    if digest is not None or fact.token not in access.named or is_forgotten:
        access.named[fact.token] = at


def _granted(access: Access, _event: Recorded, fact: events.RoleGranted, account: str) -> None:
    access.roles.setdefault(account, set()).add(fact.role)


def _taken(access: Access, _event: Recorded, fact: events.RoleRevoked, account: str) -> None:
    access.roles.get(account, set()).discard(fact.role)


def _banned(access: Access, _event: Recorded, fact: events.AccountBanned, account: str) -> None:
    access.bans[account] = fact
    access.appeals.pop(account, None)


def _appealed(access: Access, _event: Recorded, _fact: object, account: str) -> None:
    access.appeals[account] = "your appeal waits for an answer"


def _answered(
    access: Access, _event: Recorded, fact: events.BanAppealDecided, account: str
) -> None:
    access.appeals[account] = f"your appeal was answered: {fact.reason}"


def _unbanned(access: Access, _event: Recorded, _fact: object, account: str) -> None:
    access.bans.pop(account, None)


def _invited(access: Access, event: Recorded, fact: events.InviteIssued, invite: str) -> None:
    access.codes[fact.code_hash] = invite
    access.invites[invite] = Invite(
        id=invite,
        code_hash=fact.code_hash,
        problems=tuple(fact.problems),
        issued_at=event.envelope.at,
        expires_at=fact.expires_at,
    )


def _redeemed(access: Access, event: Recorded, fact: events.InviteRedeemed, invite: str) -> None:
    found = access.invites.get(invite)
    if found is not None:
        at = event.envelope.at
        access.invites[invite] = found._replace(account=fact.account, claimed_at=at)
        access.redeemed.setdefault(fact.account, set()).add(invite)


def _uninvited(access: Access, _event: Recorded, _fact: object, invite: str) -> None:
    found = access.invites.pop(invite, None)
    if found is None:
        return
    access.codes.pop(found.code_hash, None)
    if found.account is not None:
        access.redeemed[found.account].discard(invite)


def _board(access: Access, event: Recorded, _fact: object, slug: str) -> None:
    fold_leaderboard(access.boards, event)
    owner = access.boards[slug].owner
    if owner is not None:
        access.owned.setdefault(owner, set()).add(slug)


_CHANGES: dict[str, Callable[[Access, Recorded, Any, str], None]] = {
    "TokenIssued": _issued,
    "TokenRevoked": _revoked,
    "RoleGranted": _granted,
    "RoleRevoked": _taken,
    "AccountBanned": _banned,
    "AccountUnbanned": _unbanned,
    "BanAppealFiled": _appealed,
    "BanAppealDecided": _answered,
    "InviteIssued": _invited,
    "InviteRedeemed": _redeemed,
    "InviteRevoked": _uninvited,
    "ProblemPublished": _board,
    "LeaderboardChanged": _board,
    "LeaderboardArchived": _board,
}
