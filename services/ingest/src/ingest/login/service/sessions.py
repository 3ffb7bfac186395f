"""A browser that is logged in: a token of its own, which it shows as a cookie."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from ingest.domain.callers import Caller, allowed
from ingest.login.domain import SESSION_S
from ingest.service.people import People
from ingest.service.tokens import NewToken, Tokens
from shared.events import SCOPES

KIND = "web"
# A person has a few browsers; the oldest session makes room, so that nobody is locked out.
SESSIONS_MAX = 10


@dataclass(frozen=True)
class Session:
    """Who is logged in, and the secret by which their browser shows it."""

    caller: Caller
    secret: str


@dataclass(frozen=True)
class Sessions:
    """Sessions of browsers."""

    tokens: Tokens
    people: People
    clock: Callable[[], datetime]

    async def open(self, account: str) -> str:
        """A new session's secret, good for 12 hours. Errors: Refused; Failed."""
        by = f"account:{account}"
        held = [one for one in self.tokens.feed.now().tokens_of(account) if one.kind == KIND]
        for old in held[: max(0, len(held) - SESSIONS_MAX + 1)]:
            await self.tokens.revoke(account, old.number, "a newer login took its place", by)
        at, may = self.clock(), allowed(self.tokens.feed.now().roles.get(account, ()))
        scopes = [scope for scope in SCOPES if scope in may]
        ends = at + timedelta(seconds=SESSION_S)
        new = NewToken(KIND, f"web login {at:%Y-%m-%d}", scopes, ends)
        return (await self.tokens.issue(account, new, by)).secret

    async def find(self, secret: str) -> Session | None:
        """Who shows this secret; None for any but a live session's. Errors: Failed."""
        token = self.tokens.known(secret) if secret else None
        if token is None or token.kind != KIND:
            return None
        at = self.clock()
        self.tokens.used(token.id, at)
        caller = self.tokens.feed.now().caller(token, at)
        name = await self.people.name_of(token.account)
        return Session(replace(caller, name=name), secret)

    async def close(self, secret: str) -> None:
        """Let a session end; harmless if it is over. Errors: Failed."""
        token = self.tokens.known(secret) if secret else None
        if token is not None and token.kind == KIND:
            by = f"account:{token.account}"
            await self.tokens.revoke(token.account, token.number, "logged out", by)
