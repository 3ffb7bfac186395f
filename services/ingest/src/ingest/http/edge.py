"""The Discord edge: one secret, by which it acts for whoever Discord says uses the bot."""

import hmac
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from urllib.parse import unquote

from fastapi import Request

from ingest.domain.callers import ANONYMOUS, Caller
from ingest.http.credentials import Shown, only
from ingest.service.gate import AccessFeed
from shared.clock import now
from shared.errors import Refused

USER = "Warpboard-Discord-User"
NAME = "Warpboard-Discord-Name"
ROLES = "Warpboard-Discord-Roles"
SNOWFLAKE = re.compile(r"[1-9][0-9]{0,19}\Z")
PROVIDER = "discord"
SAFE = ("GET", "HEAD", "OPTIONS")
# The account of who is known elsewhere by a subject: of a stranger none, or with a name a new one.
Arrive = Callable[[str, str, str | None], Awaitable[str | None]]


async def _nobody(_provider: str, _subject: str, _name: str | None) -> str | None:
    return None


@dataclass(frozen=True)
class Edge:
    """Lets the edge act for its users; without a token it lets nobody in.

    `roles` are those by which somebody may be an operator there, if their account has them, too.
    """

    token: str = field(default="", repr=False)
    feed: AccessFeed | None = None
    arrive: Arrive = _nobody
    roles: frozenset[str] = frozenset()

    def is_shown(self, given: Shown | None) -> bool:
        """Whether this is the edge's own secret."""
        if given is None or not self.token:
            return False
        return hmac.compare_digest(given.secret.encode("latin-1"), self.token.encode())

    def check(self, given: Shown | None) -> None:
        """Refuse who is not the edge itself. Errors: Refused `missing_credential`."""
        if not self.is_shown(given):
            what = "this is for the Discord edge alone, by its own token"
            raise Refused("missing_credential", what, "authorization")

    def payer(self, request: Request) -> str:
        """Whose rate a request of the edge counts to: each of its users has their own."""
        return f"token {PROVIDER}:{only(request, USER.lower())[:20]}"

    async def caller(self, request: Request) -> Caller | None:
        """Whom the edge asks for; it is nobody itself, and who is new comes in by acting.

        Errors: Refused for what is no Discord id; Failed.
        """
        subject = only(request, USER.lower())
        if not subject:
            return ANONYMOUS
        if not SNOWFLAKE.match(subject):
            raise Refused("invalid_credential", f"{subject!r} is no Discord id", USER.lower())
        name = unquote(only(request, NAME.lower())) or "participant"
        reads = request.method in SAFE
        account = await self.arrive(PROVIDER, subject, None if reads else name)
        assert self.feed is not None, "who has a token is told who may do what"
        if account is None:
            return None
        said = only(request, ROLES.lower()).split(",")
        shown = self.roles.intersection(one.strip() for one in said)
        return self.feed.now().vouched(account, PROVIDER, now(), *shown)
