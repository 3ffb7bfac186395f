"""Tokens: issued, revoked and listed; their text is shown once and kept nowhere."""

import asyncio
import hashlib
import hmac
import logging
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from ingest.domain import accounts
from ingest.domain.access import Token
from ingest.domain.callers import Caller
from ingest.service.decisions import By, Decisions, Made
from ingest.service.gate import AccessFeed, digest
from ingest.service.ports import TokenRow, TokenRows
from shared import subjects
from shared.clock import new_id
from shared.errors import Failed, Refused
from shared.events import TokenIssued

log = logging.getLogger(__name__)

NOTE_S = 60.0
PREFIX = "wb_"
RANDOM_BYTES = 32
PREFIX_LENGTH = 10


class NewToken(NamedTuple):
    """A token that is wanted; its text is a fresh one unless it is given.

    `problems` limits it to those; none is no limit.
    """

    kind: str
    name: str
    scopes: Sequence[str]
    expires_at: datetime | None
    problems: Sequence[str] = ()
    secret: str | None = None
    reason: str = ""


class Issued(NamedTuple):
    """A token that was made; `secret` is its text, which nobody can show again."""

    number: int
    token_id: str
    secret: str
    prefix: str
    expires_at: datetime | None


class Listed(NamedTuple):
    """A token as its owner sees it."""

    token: Token
    row: TokenRow


def fresh() -> str:
    """The text of a new token: 256 random bits."""
    return PREFIX + secrets.token_urlsafe(RANDOM_BYTES)


def csrf(secret: str) -> str:
    """What a page must send in X-CSRF-Token beside the login cookie with this secret."""
    return hmac.new(secret.encode(), b"warpboard csrf", hashlib.sha256).hexdigest()


@dataclass(frozen=True)
class Tokens:
    """The commands about tokens; who may give them is for the caller to have checked."""

    decisions: Decisions
    feed: AccessFeed
    rows: TokenRows
    _used: dict[str, datetime] = field(default_factory=dict)

    async def issue(self, account: str, new: NewToken, by: str) -> Issued:
        """Let a secret act for an account, from now on.

        Errors: Refused, `cli_id_taken` if a given secret is in use; Failed.
        """
        text = new.secret or fresh()
        fact = TokenIssued(
            token=new_id(),
            token_hash=digest(text),
            kind=new.kind,
            scopes=list(dict.fromkeys(new.scopes)),
            expires_at=new.expires_at,
            problems=list(dict.fromkeys(new.problems)),
            reason=new.reason,
        )
        prefix = text[:PREFIX_LENGTH]
        # Its name first: a token that is in the log has one in every list.
        await self.rows.add_token(TokenRow(fact.token, account, new.name, prefix))
        made = await self._decide(account, accounts.Issue(fact, self.decisions.clock()), by)
        assert made.seq is not None, "an issued token is an event"
        held = self.feed.now().tokens.get(fact.token_hash)
        if held is not None and held.id != fact.token:
            raise Refused("cli_id_taken", "this id acts for somebody already", "cli_id")
        return Issued(made.seq, fact.token, text, prefix, new.expires_at)

    async def mint(self, caller: Caller, new: NewToken) -> Issued:
        """A token that somebody makes for themselves; it may no more than the one they came with.

        Errors: Refused; Failed.
        """
        beyond = sorted(set(new.scopes) - caller.scopes)
        if beyond:
            what = f"you may not give away {', '.join(beyond)}: you do not have it here"
            raise Refused("scope_missing", what, "scopes")
        wider = not new.problems or set(new.problems) - caller.problems
        if caller.problems and wider:
            what = f"your own token is for {', '.join(sorted(caller.problems))} alone"
            raise Refused("scope_missing", what, "problems")
        for slug in new.problems:
            self.feed.now().check_sees(caller, slug)
        return await self.issue(caller.id, new, caller.actor)

    async def revoke_any(self, number: int, reason: str, by: str) -> Made:
        """Revoke anybody's token, by an operator. Errors: Refused `unknown_token`; Failed."""
        held = self.feed.now().tokens.values()
        found = next((one for one in held if one.number == number), None)
        if found is None:
            raise Refused("unknown_token", f"there is no token {number}", "id")
        accounts.check_over(self.feed.now().roles, by, found.account)
        return await self._decide(found.account, accounts.Revoke(found.id, reason), by)

    async def revoke(self, account: str, number: int, reason: str, by: str) -> Made:
        """Let a token act for nobody any more. Errors: Refused `unknown_token`; Failed."""
        held = self.feed.now().tokens_of(account)
        found = next((one for one in held if one.number == number), None)
        if found is None:
            raise Refused("unknown_token", f"you have no token {number}", "id")
        return await self._decide(account, accounts.Revoke(found.id, reason), by)

    async def listed(self, account: str) -> list[Listed]:
        """The tokens of an account that are not revoked, oldest first. Errors: Failed."""
        rows = {row.token: row for row in await self.rows.tokens(account)}
        blank = TokenRow("", account, "", "")
        held = self.feed.now().tokens_of(account)
        return [Listed(one, rows.get(one.id, blank)) for one in held]

    def known(self, secret: str) -> Token | None:
        """The live token with this text; None if it is nobody's. Errors: Failed."""
        return self.feed.token(secret)

    def used(self, token: str, at: datetime) -> None:
        """Note that a token was used; it is written down within a minute."""
        self._used[token] = at

    async def note(self) -> None:
        """Write down which tokens were used since the last time. Errors: Failed."""
        if self._used:
            used = self._used.copy()
            await self.rows.used(used)
            for token, at in used.items():
                if self._used[token] == at:
                    del self._used[token]

    async def noting(self) -> None:
        """Write down for ever, once a minute, which tokens were used."""
        while True:
            await asyncio.sleep(NOTE_S)
            try:
                await self.note()
            except Failed as failed:
                log.warning("when tokens were used is not written down: %s", failed)

    async def _decide(self, account: str, command: accounts.AccountCommand, by: str) -> Made:
        agg = subjects.account(account)
        made = await self.decisions.make(agg, accounts.accounts, command, By(by, account))
        await self.feed.reach(made.seq)
        return made
