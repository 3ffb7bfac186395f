"""Credentials as they arrive in a request, and those of the Discord edge for its users."""

import hmac
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import unquote

from fastapi import Request

from ingest.access.callers import ANONYMOUS, Caller
from ingest.access.feed import AccessFeed
from shared.clock import now
from shared.errors import Refused

SCHEME = "bearer"
# What clients send that have no credential.
NOTHING = ("", "None")

USER_HEADER = "Warpboard-Discord-User"
NAME_HEADER = "Warpboard-Discord-Name"
ROLES_HEADER = "Warpboard-Discord-Roles"
SNOWFLAKE = re.compile(r"[1-9][0-9]{0,19}\Z")
PROVIDER = "discord"
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
# Returns the account of a provider's subject; for an unknown one None, or a new one under the name.
ResolveAccount = Callable[[str, str, str | None], Awaitable[str | None]]


class Credential(NamedTuple):
    """A credential as it arrived; `header` names its source."""

    header: str
    secret: str


def bearer_credential(request: Request) -> Credential | None:
    """Return the token of `Authorization`. Raises `Refused` (`conflicting_credentials`) for two."""
    scheme, _, text = single_header(request, "authorization").partition(" ")
    return parse_credential("Authorization", text) if scheme.lower() == SCHEME else None


def single_header(request: Request, header: str) -> str:
    """Return a header with a credential, "" without one. Raises `Refused` if it is repeated."""
    values = set(request.headers.getlist(header))
    if len(values) > 1:
        raise Refused("conflicting_credentials", f"{header} was sent twice: send it once", header)
    return values.pop() if values else ""


def parse_credential(header: str, text: str) -> Credential | None:
    """Return a credential, None for an empty header."""
    secret = text.strip()
    return None if secret in NOTHING else Credential(header, secret)


async def _resolve_nobody(_provider: str, _subject: str, _name: str | None) -> str | None:
    return None


@dataclass(frozen=True)
class Edge:
    """Lets the Discord edge act for its users; without a token it accepts nobody.

    `roles` are the Discord roles that make operators, if the account has them, too.
    """

    token: str = field(default="", repr=False)
    feed: AccessFeed | None = None
    arrive: ResolveAccount = _resolve_nobody
    roles: frozenset[str] = frozenset()

    def is_edge(self, credential: Credential | None) -> bool:
        """Return whether a credential is the secret of the edge."""
        if credential is None or not self.token:
            return False
        return hmac.compare_digest(credential.secret.encode("latin-1"), self.token.encode())

    def check(self, credential: Credential | None) -> None:
        """Refuse a credential that is not the edge's. Raises `Refused` (`missing_credential`)."""
        if not self.is_edge(credential):
            message = "only the Discord edge may do this, with its own token"
            raise Refused("missing_credential", message, "authorization")

    def rate_limit_key(self, request: Request) -> str:
        """Return whose rate limit a request counts against: each Discord user has their own."""
        return f"token {PROVIDER}:{single_header(request, USER_HEADER.lower())[:20]}"

    async def caller(self, request: Request) -> Caller | None:
        """Return the caller the edge acts for; a first write opens an account.

        Raises `Refused` for an invalid Discord id, and `Failed`.
        """
        subject = single_header(request, USER_HEADER.lower())
        if not subject:
            return ANONYMOUS
        if not SNOWFLAKE.match(subject):
            raise Refused(
                "invalid_credential", f"{subject!r} is not a Discord id", USER_HEADER.lower()
            )
        name = unquote(single_header(request, NAME_HEADER.lower())) or "participant"
        reads = request.method in SAFE_METHODS
        account = await self.arrive(PROVIDER, subject, None if reads else name)
        assert self.feed is not None, "an edge with a token has a feed"
        if account is None:
            return None
        listed_roles = single_header(request, ROLES_HEADER.lower()).split(",")
        confirmed_roles = self.roles.intersection(role.strip() for role in listed_roles)
        return self.feed.now().caller_through(account, PROVIDER, now(), *confirmed_roles)
