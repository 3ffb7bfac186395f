"""Tokens: issued, revoked and listed, and linked CLI ids.

The text of a token is shown once and never stored.
"""

import asyncio
import hashlib
import hmac
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from ingest.access.callers import Caller
from ingest.access.feed import AccessFeed, hash_secret
from ingest.access.rules import Token
from ingest.accounts import rules
from ingest.accounts.service import Accounts, decide_account
from ingest.decisions import DecisionResult, Decisions
from ingest.ports import AccountStore, TokenRow
from shared.clock import new_id
from shared.errors import Failed, Refused
from shared.events import TokenIssued, TokenRevoked

log = logging.getLogger(__name__)

NOTE_S = 60.0
PREFIX = "wb_"
RANDOM_BYTES = 32
PREFIX_LENGTH = 10

CLI_SCOPES = ("submit", "submit:ranked", "profile", "read:own", "delete:own", "join")
CLI_LIFE_DAYS = 90
CLI_ID_LENGTH_MIN, CLI_ID_LENGTH_MAX = 16, 128


class NewToken(NamedTuple):
    """A token to issue; its text is generated unless `secret` is given.

    `problems` limits it to these problems; empty means no limit.
    """

    kind: str
    name: str
    scopes: Sequence[str]
    expires_at: datetime | None
    problems: Sequence[str] = ()
    secret: str | None = None
    reason: str = ""


class IssuedToken(NamedTuple):
    """A token that was issued; `secret` is its text, which cannot be shown again."""

    number: int
    token_id: str
    secret: str
    prefix: str
    expires_at: datetime | None


class TokenDetails(NamedTuple):
    """A token as its owner sees it."""

    token: Token
    row: TokenRow


def new_token_text() -> str:
    """Return the text of a new token: 256 random bits."""
    return PREFIX + secrets.token_urlsafe(RANDOM_BYTES)


def csrf_token(secret: str) -> str:
    """Return the X-CSRF-Token that belongs to the login cookie with this secret."""
    return hmac.new(secret.encode(), b"warpboard csrf", hashlib.sha256).hexdigest()


@dataclass(frozen=True)
class Tokens:
    """The commands about tokens; callers check rights. They may raise `Refused` and `Failed`."""

    decisions: Decisions
    feed: AccessFeed
    rows: AccountStore
    _used: dict[str, datetime] = field(default_factory=dict)

    async def issue(self, account: str, new: NewToken, by: str) -> IssuedToken:
        """Let a secret act for an account from now on.

        Raises `Refused` (`cli_id_taken` if a given secret is in use) and `Failed`.
        """
        text = new.secret or new_token_text()
        fact = TokenIssued(
            token=new_id(),
            token_hash=hash_secret(text),
            kind=new.kind,
            scopes=list(dict.fromkeys(new.scopes)),
            expires_at=new.expires_at,
            problems=list(dict.fromkeys(new.problems)),
            reason=new.reason,
        )
        prefix = text[:PREFIX_LENGTH]
        # The name first, so that every token in the log has one in the lists.
        await self.rows.add_token(TokenRow(fact.token, account, new.name, prefix))
        result = await decide_account(self.decisions, account, fact, by)
        assert result.seq is not None, "an issued token is an event"
        existing = self.feed.now().tokens.get(fact.token_hash)
        if existing is not None and existing.id != fact.token:
            raise Refused("cli_id_taken", "this id is already linked to somebody", "cli_id")
        return IssuedToken(result.seq, fact.token, text, prefix, new.expires_at)

    async def issue_own(self, caller: Caller, new: NewToken) -> IssuedToken:
        """Issue a token for the caller; it may do no more than their current token."""
        if missing := sorted(set(new.scopes) - caller.scopes):
            message = f"you cannot grant {', '.join(missing)}: your own token does not have it"
            raise Refused("scope_missing", message, "scopes")
        if caller.problems and (not new.problems or set(new.problems) - caller.problems):
            message = f"your own token is limited to {', '.join(sorted(caller.problems))}"
            raise Refused("scope_missing", message, "problems")
        for slug in new.problems:
            self.feed.now().check_sees(caller, slug)
        return await self.issue(caller.id, new, caller.actor)

    async def revoke_any(self, number: int, reason: str, by: str) -> DecisionResult:
        """Revoke any token, for an operator. Raises `Refused` (`unknown_token`) and `Failed`."""
        access = self.feed.now()
        token = _find(access.tokens.values(), number, f"there is no token {number}")
        rules.check_over(access.roles, by, token.account)
        return await self._revoke(token, reason, by)

    async def revoke(self, account: str, number: int, reason: str, by: str) -> DecisionResult:
        """Revoke a token of an account. Raises `Refused` (`unknown_token`) and `Failed`."""
        own_tokens = self.feed.now().tokens_of(account)
        token = _find(own_tokens, number, f"you have no token {number}")
        return await self._revoke(token, reason, by)

    async def _revoke(self, token: Token, reason: str, by: str) -> DecisionResult:
        revoked = TokenRevoked(token=token.id, reason=reason)
        return await decide_account(self.decisions, token.account, revoked, by)

    async def list_tokens(self, account: str) -> list[TokenDetails]:
        """Return the tokens of an account that are not revoked, oldest first. Raises `Failed`."""
        rows = {row.token: row for row in await self.rows.tokens(account)}
        blank = TokenRow("", account, "", "")
        own_tokens = self.feed.now().tokens_of(account)
        return [TokenDetails(token, rows.get(token.id, blank)) for token in own_tokens]

    def known(self, secret: str) -> Token | None:
        """Return the live token with this text, or None. Raises `Failed`."""
        return self.feed.token(secret)

    def used(self, token: str, at: datetime) -> None:
        """Remember that a token was used; it is stored within a minute."""
        self._used[token] = at

    async def store_usage(self) -> None:
        """Store which tokens were used since the last call. Raises `Failed`."""
        if self._used:
            used = self._used.copy()
            await self.rows.used(used)
            for token, at in used.items():
                if self._used[token] == at:
                    del self._used[token]

    async def store_usage_forever(self) -> None:
        """Store once a minute which tokens were used; never returns."""
        while True:
            await asyncio.sleep(NOTE_S)
            try:
                await self.store_usage()
            except Failed as failed:
                log.warning("cannot store when tokens were used: %s", failed)


def _find(tokens: Iterable[Token], number: int, message: str) -> Token:
    for token in tokens:
        if token.number == number:
            return token
    raise Refused("unknown_token", message, "id")


@dataclass(frozen=True)
class CliIdLinking:
    """Links CLI ids; `autolink` is the participant who gets every id, "" for none."""

    people: Accounts
    tokens: Tokens
    autolink: str = ""
    is_pending: Callable[[str], Awaitable[bool]] | None = None

    async def claim(self, cli_id: str) -> None:
        """Link an unknown id if `autolink` is set, else refuse one that waits to be linked.

        Raises `Refused` (`cli_id_not_linked`) and `Failed`. An id that was never issued stays
        unknown.
        """
        if self.autolink and CLI_ID_LENGTH_MIN <= len(cli_id) <= CLI_ID_LENGTH_MAX:
            account, _ = await self.people.open(self.autolink, "cli", "")
            await self.link(account, cli_id)
        elif self.is_pending is not None and await self.is_pending(cli_id):
            message = (
                "this CLI id is not linked to a participant yet: run `warpboard login`, use "
                "`/account link` in Discord, or paste the id on the web page /link"
            )
            raise Refused("cli_id_not_linked", message)

    async def link(self, account: str, cli_id: str, scopes: Sequence[str] = CLI_SCOPES) -> None:
        """Let an id act for a participant. Raises `Refused` (`cli_id_taken`) and `Failed`."""
        at = self.tokens.decisions.clock()
        ends_at, name = at + timedelta(days=CLI_LIFE_DAYS), f"popcorn-cli {at:%Y-%m-%d}"
        new = NewToken("cli", name, scopes, ends_at, secret=cli_id)
        await self.tokens.issue(account, new, f"account:{account}")
