"""Access rights, folded from events of accounts, invites and problems."""

import hmac
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from ingest.identity.bans import ban_at, format_ban_end
from ingest.identity.caller import Caller, check_problem, check_scope, unknown_leaderboard
from ingest.identity.scopes import (
    BANNED_SCOPES,
    CREATOR,
    NOT_THROUGH_DISCORD,
    STAFF_SCOPES,
    STAFF_SCOPES_THROUGH_DISCORD,
    allowed_scopes,
    effective_scopes,
)
from shared import events
from shared.errors import Refused
from shared.event_log import RecordedEvent
from shared.leaderboards import Leaderboard, fold_leaderboard
from shared.subjects import last_token
from shared.wire import is_genuine

# Ended tokens are remembered this long; nobody can reuse their id or secret meanwhile.
ENDED_KEPT_DAYS = 1
SESSION_KIND = "web"
AGGREGATES = ("account.>", "invite.>", "problem.>")
APPEAL_OPEN = "your appeal is waiting for an answer"
APPEAL = "`warpboard auth appeal TEXT`, or POST /v1/me/appeal, files an appeal"


class Token(NamedTuple):
    """A token that was issued; `number` is its public id."""

    number: int
    id: str
    hash: str
    account: str
    kind: str
    scopes: tuple[str, ...]
    issued_at: datetime
    expires_at: datetime | None
    problems: tuple[str, ...] = ()

    @property
    def is_session(self) -> bool:
        """Return whether this is the login of a browser."""
        return self.kind == SESSION_KIND

    def is_live(self, at: datetime) -> bool:
        """Return whether the token has not expired."""
        return self.expires_at is None or at < self.expires_at


class Invite(NamedTuple):
    """An invite; `account` is the participant who redeemed it."""

    id: str
    code_hash: str
    problems: tuple[str, ...]
    issued_at: datetime
    expires_at: datetime | None
    account: str | None = None
    claimed_at: datetime | None = None


class MergeOffer(NamedTuple):
    """An account that may be merged into that of whoever knows the code, until a time."""

    account: str
    expires_at: datetime


@dataclass
class Access:
    """All access rights; a revoked token or invite is in no table, whatever came later.

    `named` maps token ids to the time when each one ends or ended; None means never. `merged` maps
    accounts to those that they are part of, `parts` is its reverse, and `offers` has the offers to
    merge by the hash of their code.
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
    merged: dict[str, str] = field(default_factory=dict)
    parts: dict[str, list[str]] = field(default_factory=dict)
    offers: dict[str, MergeOffer] = field(default_factory=dict)

    def account_of(self, account: str) -> str:
        """Return the account that another one is part of; itself if it is not merged."""
        return self.merged.get(account, account)

    def parts_of(self, account: str) -> list[str]:
        """Return an account and those that are part of it."""
        return [account, *self.parts.get(account, ())]

    def offer(self, digest: str, at: datetime) -> MergeOffer | None:
        """Return the offer to merge whose code has this hash, or None."""
        offer = self.offers.get(digest)
        return offer if offer is not None and at < offer.expires_at else None

    def drop_offers(self, *accounts: str) -> None:
        """Forget the offers to merge these accounts."""
        for digest in [it for it, offer in self.offers.items() if offer.account in accounts]:
            del self.offers[digest]

    def token(self, digest: str, at: datetime) -> Token | None:
        """Return the live token with this hash, or None."""
        token = self.tokens.get(digest)
        if token is None or not hmac.compare_digest(token.hash, digest):
            return None
        return token if token.is_live(at) else None

    def drop_ended(self, at: datetime) -> None:
        """Forget the tokens that expired or were revoked more than a day ago."""
        before = at - timedelta(days=ENDED_KEPT_DAYS)
        ended_tokens = [token for token in self.tokens.values() if not token.is_live(before)]
        for token in ended_tokens:
            del self.tokens[token.hash]
            self.forget_hash(token.account, token.id)
        for id_ in [id_ for id_, ends_at in self.named.items() if ends_at and ends_at <= before]:
            del self.named[id_]
        self.drop_offers(*(it.account for it in self.offers.values() if it.expires_at <= before))

    def forget_hash(self, account: str, token: str) -> str | None:
        """Remove a token from an account and return its hash; None if it has no such token."""
        account_hashes = self.hashes.get(account, {})
        digest = account_hashes.pop(token, None)
        if not account_hashes:
            self.hashes.pop(account, None)
        return digest

    def is_free(self, fact: events.TokenIssued, at: datetime) -> bool:
        """Return whether the id and the secret of a new token are unused.

        Tokens that ended more than a day ago count as free even if they were not forgotten yet, so
        that every ingest process folds the same log to the same state.
        """
        existing, ends_at = self.tokens.get(fact.token_hash), self.named.get(fact.token)
        before = at - timedelta(days=ENDED_KEPT_DAYS)
        if (existing and not existing.is_live(before)) or (ends_at and ends_at <= before):
            self.drop_ended(at)
        return fact.token not in self.named and fact.token_hash not in self.tokens

    def tokens_of(self, account: str) -> list[Token]:
        """Return the tokens of an account that are not revoked, oldest first."""
        return sorted(
            self.tokens[digest]
            for part in self.parts_of(account)
            for digest in self.hashes.get(part, {}).values()
        )

    def boards_of(self, account: str) -> frozenset[str]:
        """Return the leaderboards that an account may see even if they are closed."""
        parts = self.parts_of(account)
        invites = (self.invites[id_] for part in parts for id_ in self.redeemed.get(part, ()))
        joined = {slug for invite in invites for slug in invite.problems}
        return self.owned_by(account) | joined

    def owned_by(self, account: str) -> frozenset[str]:
        """Return the leaderboards whose author an account is."""
        return frozenset().union(*(self.owned.get(part, ()) for part in self.parts_of(account)))

    def closed_boards(self, slugs: Iterable[str]) -> list[str]:
        """Return those of some leaderboards that are closed, sorted."""
        boards = ((slug, self.boards.get(slug)) for slug in slugs)
        return sorted(slug for slug, board in boards if board is not None and board.is_closed)

    def invite(self, digest: str) -> Invite | None:
        """Return the invite whose code has this hash, or None."""
        invite = self.invites.get(self.codes.get(digest, ""))
        matches = invite is not None and hmac.compare_digest(invite.code_hash, digest)
        return invite if matches else None

    def invites_to(self, slug: str) -> list[Invite]:
        """Return the invites to a leaderboard that are not revoked, oldest first."""
        return [invite for invite in self.invites.values() if slug in invite.problems]

    def caller(self, token: Token, at: datetime) -> Caller:
        """Return the caller that a live token acts for."""
        account = self.account_of(token.account)
        roles = frozenset(self.roles.get(account, ()))
        scopes = effective_scopes(token.scopes, roles)
        caller = Caller(
            account=account,
            scopes=scopes - STAFF_SCOPES if token.problems else scopes,
            roles=roles,
            kind="token",
            token=token.id,
            problems=frozenset(token.problems),
        )
        return self._with_leaderboards(caller, account, at)

    def named_caller(self, account: str | None, name: str, at: datetime) -> Caller:
        """Return the caller for a name that is believed: a creator, never an operator."""
        scopes, roles = allowed_scopes([CREATOR]), frozenset({CREATOR})
        account = None if account is None else self.account_of(account)
        caller = Caller(account=account, name=name, scopes=scopes, roles=roles, kind="local")
        return caller if account is None else self._with_leaderboards(caller, account, at)

    def delegated_caller(
        self, account: str, provider: str, at: datetime, *confirmed_roles: str
    ) -> Caller:
        """Return the caller that another service acts for.

        They are a creator by `confirmed_roles` alone, and an operator only by roles that the
        account has, too.
        """
        account = self.account_of(account)
        roles = frozenset(self.roles.get(account, ()))
        scopes = (
            allowed_scopes(roles.union({CREATOR}.intersection(confirmed_roles)))
            - NOT_THROUGH_DISCORD
            | allowed_scopes(roles.intersection(confirmed_roles)) & STAFF_SCOPES_THROUGH_DISCORD
        )
        caller = Caller(account=account, scopes=scopes, roles=roles, kind=provider)
        return self._with_leaderboards(caller, account, at)

    def _with_leaderboards(self, caller: Caller, account: str, at: datetime) -> Caller:
        """Return the caller with their leaderboards; a banned caller keeps almost no scopes."""
        ban = ban_at(self.bans.get(account), at)
        if ban is None:
            owned = self.owned_by(account)
            return replace(caller, boards=self.boards_of(account), owned=owned)
        appeal = self.appeals.get(account, APPEAL)
        return replace(
            caller,
            scopes=caller.scopes & BANNED_SCOPES,
            ban=f"you are banned, {format_ban_end(ban)}: {ban.reason}; {appeal}",
            wait_s=None if ban.until_at is None else (ban.until_at - at).total_seconds(),
        )

    def leaderboard(self, slug: str) -> Leaderboard:
        """Return the leaderboard of a problem. Raises `Refused` (`unknown_leaderboard`)."""
        leaderboard = self.boards.get(slug)
        if leaderboard is None or not leaderboard.is_published:
            raise unknown_leaderboard(slug, self.open_boards())
        return leaderboard

    def open_boards(self) -> list[str]:
        """Return the leaderboards that everybody may see."""
        boards = self.boards.items()
        return [slug for slug, board in boards if board.is_published and not board.is_closed]

    def open_ban_appeals(self) -> list[str]:
        """Return the accounts whose appeal against a ban has no answer yet."""
        return [account for account, appeal in self.appeals.items() if appeal == APPEAL_OPEN]

    def check_sees(self, caller: Caller, slug: str) -> None:
        """Refuse a caller who may not see a leaderboard."""
        check_problem(caller, slug)
        is_closed = self.leaderboard(slug).is_closed
        if not is_closed or caller.is_staff or slug in caller.boards:
            return
        if caller.kind == "anonymous":
            message = f"{slug} is a closed leaderboard: send the token of a member"
            raise Refused("missing_credential", message, "authorization")
        how = "`warpboard leaderboard join CODE`, or POST /v1/user/join"
        message = f"{slug} is a closed leaderboard: join it with an invite, by {how}"
        raise Refused("no_access", message, "problem")

    def check_manages(self, caller: Caller, slug: str) -> None:
        """Refuse a caller who is neither the owner of a leaderboard nor an operator."""
        check_problem(caller, slug)
        if self.leaderboard(slug).is_closed and not caller.is_staff and slug not in caller.boards:
            raise unknown_leaderboard(slug, self.open_boards())
        if not caller.may("admin:problems"):
            check_scope(caller, "author")
            self.check_owns(caller, slug)

    def author_of(self, slug: str) -> str:
        """Return the account of a problem's author, "" if it has none."""
        leaderboard = self.boards.get(slug)
        return self.account_of((leaderboard and leaderboard.owner) or "")

    def check_owns(self, caller: Caller, slug: str) -> None:
        """Refuse a caller if the problem belongs to another author; an unpublished one is free."""
        leaderboard = self.boards.get(slug)
        owner = self.author_of(slug)
        if leaderboard and leaderboard.is_published and owner != caller.account:
            raise Refused("not_yours", f"{slug} belongs to another author", "problem")


def evolve(access: Access, event: RecordedEvent) -> None:
    """Fold one more event; an event that was folded before changes nothing.

    Raises `UnknownEvent`.
    """
    if event.seq <= access.seq:
        return
    access.seq = event.seq
    access.has_accounts = access.has_accounts or event.envelope.aggregate.startswith("account.")
    handler = _HANDLERS.get(event.envelope.type)
    if handler is not None and is_genuine(event.envelope):
        handler(access, event, event.fact, last_token(event.envelope.aggregate))


def _on_token_issued(
    access: Access, event: RecordedEvent, fact: events.TokenIssued, account: str
) -> None:
    # The first token with a secret keeps it, so nobody can take over a token of somebody else. An
    # id is used once, so that revoking an id revokes everything issued under it.
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


def _on_token_revoked(
    access: Access, event: RecordedEvent, fact: events.TokenRevoked, account: str
) -> None:
    at = event.envelope.at
    ends_at = access.named.get(fact.token)
    # An id that may have been forgotten already is forgotten now, and with it whoever's token.
    if ends_at is not None and ends_at <= at - timedelta(days=ENDED_KEPT_DAYS):
        access.drop_ended(at)
    digest = access.forget_hash(account, fact.token)
    if digest is not None:
        del access.tokens[digest]
    if digest is not None or fact.token not in access.named:
        access.named[fact.token] = at


def _on_account_event(
    access: Access, _event: RecordedEvent, fact: events.Fact, account: str
) -> None:
    match fact:
        case events.RoleGranted():
            access.roles.setdefault(account, set()).add(fact.role)
        case events.RoleRevoked():
            access.roles.get(account, set()).discard(fact.role)
        case events.AccountBanned():
            access.bans[account] = fact
            access.appeals.pop(account, None)
        case events.AccountUnbanned():
            access.bans.pop(account, None)
        case events.BanAppealFiled():
            access.appeals[account] = APPEAL_OPEN
        case events.BanAppealDecided():
            access.appeals[account] = f"your appeal was answered: {fact.reason}"


def _on_merge_event(access: Access, _event: RecordedEvent, fact: events.Fact, account: str) -> None:
    match fact:
        case events.MergeOffered():
            access.drop_offers(account)
            access.offers[fact.code_hash] = MergeOffer(account, fact.expires_at)
        case events.AccountMerged():
            access.merged[account] = fact.into
            access.parts.setdefault(fact.into, []).append(account)
            access.drop_offers(account, fact.into)
        case events.MergeUndone():
            into = access.merged.pop(account, None)
            if into is not None:
                access.parts[into].remove(account)


def _on_invite_event(access: Access, event: RecordedEvent, fact: events.Fact, invite: str) -> None:
    at, known = event.envelope.at, access.invites.get(invite)
    match fact:
        case events.InviteIssued():
            access.codes[fact.code_hash] = invite
            access.invites[invite] = Invite(
                invite, fact.code_hash, tuple(fact.problems), at, fact.expires_at
            )
        case events.InviteRedeemed() if known is not None:
            access.invites[invite] = known._replace(account=fact.account, claimed_at=at)
            access.redeemed.setdefault(fact.account, set()).add(invite)
        case events.InviteRevoked() if known is not None:
            del access.invites[invite]
            access.codes.pop(known.code_hash, None)
            if known.account is not None:
                access.redeemed[known.account].discard(invite)


def _on_leaderboard_event(access: Access, event: RecordedEvent, _fact: object, slug: str) -> None:
    fold_leaderboard(access.boards, event)
    owner = access.boards[slug].owner
    if owner is not None:
        access.owned.setdefault(owner, set()).add(slug)


_HANDLERS: dict[str, Callable[[Access, RecordedEvent, Any, str], None]] = {
    "TokenIssued": _on_token_issued,
    "TokenRevoked": _on_token_revoked,
    "RoleGranted": _on_account_event,
    "RoleRevoked": _on_account_event,
    "AccountBanned": _on_account_event,
    "AccountUnbanned": _on_account_event,
    "BanAppealFiled": _on_account_event,
    "BanAppealDecided": _on_account_event,
    "MergeOffered": _on_merge_event,
    "AccountMerged": _on_merge_event,
    "MergeUndone": _on_merge_event,
    "InviteIssued": _on_invite_event,
    "InviteRedeemed": _on_invite_event,
    "InviteRevoked": _on_invite_event,
    "ProblemPublished": _on_leaderboard_event,
    "LeaderboardChanged": _on_leaderboard_event,
    "LeaderboardArchived": _on_leaderboard_event,
}
