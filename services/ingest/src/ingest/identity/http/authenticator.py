"""Authenticates operators, participants by token, session or name, and the Discord edge."""

import hmac
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple
from urllib.parse import unquote

from fastapi import Request

from ingest.http.addresses import client_address
from ingest.http.cookies import SESSION_COOKIE, Cookies
from ingest.identity.access.feed import AccessFeed
from ingest.identity.access.fold import Token
from ingest.identity.access.usage import TokenUsage
from ingest.identity.caller import ANONYMOUS, Caller, check_problem, check_scope
from ingest.identity.http.credentials import (
    CLI_ID_HEADERS,
    CREDENTIAL_HEADERS,
    CSRF,
    NAME_HEADER,
    OPERATOR_HEADER,
    PARTICIPANT_HEADER,
    ROLES_HEADER,
    USER_HEADER,
    Credential,
    bearer_credential,
    header_credential,
    is_secret,
    parse_credential,
    single_header,
)
from ingest.identity.names import check_name
from ingest.identity.scopes import ADMIN, CREATOR, STAFF_SCOPES
from ingest.identity.secrets import csrf_token
from ingest.ports import AccountStore
from shared.clock import now
from shared.errors import Failed, Refused

SNOWFLAKE = re.compile(r"[1-9][0-9]{0,19}\Z")
DISCORD = "discord"
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
# A token that expires or is revoked is invalid within a second.
KNOWN_S_MAX = 1.0
UNKNOWN_CREDENTIAL_CODES = ("invalid_credential", "cli_id_not_linked")
LOGIN_HINT = (
    "send the header Authorization: Bearer <token>; create one with `warpboard login` or on the "
    "web page /login"
)
# Returns the account of a provider's subject; for an unknown one None, or a new one under the name.
ResolveAccount = Callable[[str, str, str | None], Awaitable[str | None]]

# Links an unknown CLI id if the platform does so, or refuses it if it waits to be linked.
ClaimCliId = Callable[[str], Awaitable[None]]


@dataclass(frozen=True)
class Edge:
    """Lets the Discord edge act for its users; without a token it accepts nobody.

    `roles` are the Discord roles that count: a creator's alone, those of operators if the account
    has them, too.
    """

    token: str = field(default="", repr=False)
    feed: AccessFeed | None = None
    resolve_account: ResolveAccount | None = None
    roles: frozenset[str] = frozenset()

    def is_edge(self, credential: Credential | None) -> bool:
        """Return whether a credential is the secret of the edge."""
        return credential is not None and is_secret(credential, self.token)

    async def caller(self, request: Request) -> Caller | None:
        """Return the caller the edge acts for; a first write opens an account.

        Raises `Refused` for an invalid Discord id, and `Failed`.
        """
        subject = single_header(request, USER_HEADER.lower())
        if not subject:
            return ANONYMOUS
        if not SNOWFLAKE.match(subject):
            message = f"{subject!r} is not a Discord id"
            raise Refused("invalid_credential", message, USER_HEADER.lower())
        name = unquote(single_header(request, NAME_HEADER.lower())) or "participant"
        assert self.feed is not None, "an edge with a token has a feed"
        assert self.resolve_account is not None, "an edge with a token resolves accounts"
        is_read = request.method in SAFE_METHODS
        account = await self.resolve_account(DISCORD, subject, None if is_read else name)
        if account is None:
            return None
        listed_roles = {
            role.strip() for role in single_header(request, ROLES_HEADER.lower()).split(",")
        }
        if ADMIN in listed_roles:
            listed_roles.add(CREATOR)
        confirmed_roles = self.roles & listed_roles
        return self.feed.rights().delegated_caller(account, DISCORD, now(), *confirmed_roles)


class _KnownCaller(NamedTuple):
    """The caller of a request, after so many events of access rights and at this time."""

    caller: Caller | None
    folded: int
    at_s: float


@dataclass(frozen=True)
class AuthConfig:
    """The ways in beside tokens in the log: the operator token and believed names.

    An empty operator token lets nobody in. `edge` authenticates the Discord edge. `cookies` has the
    name of the session cookie.
    """

    operator_token: str = field(default="", repr=False)
    are_names_believed: bool = False
    edge: Edge = field(default_factory=Edge)
    cookies: Cookies = field(default_factory=Cookies)


@dataclass(frozen=True)
class Authenticator:
    """Authenticates requests, and provides the FastAPI dependencies that routes use.

    All raise `Refused` and `Failed`.
    """

    feed: AccessFeed
    account_store: AccountStore
    usage: TokenUsage
    claim_cli_id: ClaimCliId
    config: AuthConfig

    async def caller(self, request: Request) -> Caller:
        """Return the caller of a public route; without a valid credential they are anonymous.

        Raises `Refused` (`conflicting_credentials`).
        """
        if operator := self._operator_caller(request):
            return operator
        try:
            return await self._participant_caller(request) or ANONYMOUS
        except Refused as refused:
            if refused.code in UNKNOWN_CREDENTIAL_CODES:
                return ANONYMOUS
            raise

    def has_session(self, request: Request) -> bool:
        """Return whether a request has the cookie of a live session."""
        credential = self._session_credential(request)
        return (
            credential is not None
            and not self.feed.why_unhealthy()
            and self._token(credential) is not None
        )

    def has_credential(self, request: Request) -> bool:
        """Return whether a request has anything that names a caller, valid or not."""
        has_header = any(request.headers.get(header) for header in CREDENTIAL_HEADERS)
        return has_header or self._session_credential(request) is not None

    async def check_credential(self, request: Request) -> None:
        """Refuse a request without a valid credential, as its route would.

        The CSRF token of a form is in its body, where the route checks it.
        """
        session = self._session_credential(request)
        if session is not None and self._token(session) is not None:
            return
        if (await self.caller(request)).kind == "anonymous":
            await self.participant()(request)

    def participant(self, scope: str = "") -> Callable[[Request], Awaitable[Caller]]:
        """Return a dependency: a participant with this scope."""

        async def require_participant(request: Request) -> Caller:
            caller = await self._participant_caller(request)
            if caller is None:
                raise Refused("missing_credential", f"no credential: {LOGIN_HINT}", "authorization")
            if scope:
                check_scope(caller, scope)
            if caller.name or caller.account is None:
                return caller
            try:
                name = await self.account_store.name_of(caller.account)
            except Failed:
                name = None  # It is only for display, so a failure does not stop the request.
            return replace(caller, name=name or caller.account)

        return require_participant

    def token_manager(self) -> Callable[[Request], Awaitable[Caller]]:
        """Return a dependency: a participant who may manage their own tokens, also on Discord.

        On Discord they may list and revoke tokens and link a CLI id, but not create tokens.
        """

        async def require_keeper(request: Request) -> Caller:
            caller = await self.participant()(request)
            if not caller.manages_tokens:
                check_scope(caller, "account")
            return caller

        return require_keeper

    def operator(self, scope: str) -> Callable[[Request], Awaitable[str]]:
        """Return a dependency: the actor of a request that needs an operator scope."""

        async def require_operator(request: Request) -> str:
            return (await self.staff(request, scope)).actor

        return require_operator

    async def staff(self, request: Request, scope: str = "") -> Caller:
        """Return a caller with this operator scope, or with any."""
        edge = self.config.edge
        if edge.is_edge(bearer_credential(request)):
            caller = await edge.caller(request)
        else:
            caller = self._operator_caller(request) or self._token_or_session_caller(request)
        if caller is None:
            message = f"operators need a token: {LOGIN_HINT}"
            raise Refused("missing_credential", message, "authorization")
        if scope or not caller.is_staff:
            check_scope(caller, scope or "admin")
        return caller

    async def participant_or_staff(self, request: Request, scope: str, staff_scope: str) -> Caller:
        """Return a caller who is a participant with one scope or an operator with another."""
        caller = self._operator_caller(request) or await self.participant()(request)
        if not caller.may(staff_scope):
            check_scope(caller, scope)
        return caller

    async def author(self, request: Request, slug: str) -> Caller:
        """Return the caller who publishes a problem: its author, a new author or an operator.

        Raises `Refused` (`not_yours` for a problem of another author).
        """
        caller = await self.participant_or_staff(request, "author", "admin:problems")
        if not caller.may("admin:problems"):
            check_problem(caller, slug)
            self.feed.rights().check_owns(caller, slug)
        return caller

    def author_or_operator(self) -> Callable[[Request], Awaitable[Caller]]:
        """Return a dependency: an author or operator."""

        async def require_author(request: Request) -> Caller:
            return await self.participant_or_staff(request, "author", "admin:problems")

        return require_author

    def participant_or_operator(self) -> Callable[[Request], Awaitable[Caller]]:
        """Return a dependency: any participant, or an operator, whom the service then judges."""

        async def require_caller(request: Request) -> Caller:
            return self._operator_caller(request) or await self.participant("submit")(request)

        return require_caller

    def leaderboard_manager(self) -> Callable[[Request], Awaitable[Caller]]:
        """Return a dependency: the author of the leaderboard `slug` in the path, or an operator."""

        async def require_manager(request: Request) -> Caller:
            caller = await self.participant_or_staff(request, "author", "admin:problems")
            self.check_manages(caller, request.path_params["slug"].lower())
            return caller

        return require_manager

    def check_manages(self, caller: Caller, slug: str) -> None:
        """Refuse a caller who may not manage a leaderboard."""
        self.feed.rights().check_manages(caller, slug)

    def check_sees(self, caller: Caller, slug: str) -> None:
        """Refuse a caller who may not see a leaderboard."""
        self.feed.rights().check_sees(caller, slug)

    def edge(self, request: Request) -> None:
        """Refuse everybody but the Discord edge itself. Raises `Refused` (`missing_credential`)."""
        if not self.config.edge.is_edge(bearer_credential(request)):
            message = "only the Discord edge may do this, with its own token"
            raise Refused("missing_credential", message, "authorization")

    def rate_limit_key(self, request: Request) -> str | None:
        """Return whose rate limit a request counts against: a token or an address.

        None for operators. Each user of the Discord edge has their own limit. An unknown token
        counts against its address.
        """
        try:
            credential = bearer_credential(request)
            if self.config.edge.is_edge(credential):
                return f"token {DISCORD}:{single_header(request, USER_HEADER.lower())[:20]}"
            headers = [header_credential(request, header) for header in CLI_ID_HEADERS]
        except Refused:  # Two of one kind are refused later and count against the address.
            credential, headers = None, []
        if credential is not None and is_secret(credential, self.config.operator_token):
            return None
        for candidate in (credential, *headers, self._session_credential(request)):
            if candidate is not None and not self.feed.why_unhealthy():
                token = self._token(candidate)
                if token is not None:
                    return f"token {token.id}"
        return f"address {client_address(request)}"

    def _operator_caller(self, request: Request) -> Caller | None:
        """Return the caller if this is the operator token. Raises `Refused` for a bad name."""
        credential = bearer_credential(request)
        if credential is None or not is_secret(credential, self.config.operator_token):
            return None
        name = request.headers.get(OPERATOR_HEADER, "admin")
        check_name(name, "invalid_credential", "operator")
        return Caller(name=name, scopes=STAFF_SCOPES, kind="operator")

    async def _participant_caller(self, request: Request) -> Caller | None:
        """Return the participant of a request, whom middleware and route ask for in turn.

        They are looked up once, unless access rights changed or a second passed in between, such as
        during a long upload. Raises `Refused` for an invalid credential and for credentials of two
        participants.
        """
        known: _KnownCaller | None = getattr(request.state, "known_caller", None)
        if known is not None and self._is_current(known):
            return known.caller
        folded, at_s = self.feed.folded, time.monotonic()
        caller = await self._find_participant(request)
        request.state.known_caller = _KnownCaller(caller, folded, at_s)
        return caller

    def _is_current(self, known: _KnownCaller) -> bool:
        is_unchanged = known.folded == self.feed.folded and not self.feed.why_unhealthy()
        return is_unchanged and time.monotonic() - known.at_s < KNOWN_S_MAX

    async def _find_participant(self, request: Request) -> Caller | None:
        edge = self.config.edge
        if edge.is_edge(bearer_credential(request)):
            return await edge.caller(request)
        caller = self._token_or_session_caller(request)
        for header in CLI_ID_HEADERS:
            credential = header_credential(request, header)
            if credential is None:
                continue
            cli_caller = await self._cli_id_caller(credential)
            if caller is not None and caller.account != cli_caller.account:
                message = (
                    f"Authorization and {header} belong to different participants: send one of them"
                )
                raise Refused("conflicting_credentials", message, header.lower())
            caller = caller or cli_caller
        is_named = PARTICIPANT_HEADER in request.headers
        if caller is None and self.config.are_names_believed and is_named:
            return await self._named_caller(request)
        return caller

    def _token_or_session_caller(self, request: Request) -> Caller | None:
        """Return the caller of a token or else of the session cookie. Raises `Refused`."""
        credential = bearer_credential(request)
        if credential is not None:
            is_operators = is_secret(credential, self.config.operator_token)
            return None if is_operators else self._token_caller(credential)
        session_credential = self._session_credential(request)
        if session_credential is None:
            return None
        caller = self._token_caller(session_credential)
        if request.method not in SAFE_METHODS:
            sent_token = request.headers.get(CSRF, "").encode("latin-1")
            if not hmac.compare_digest(sent_token, csrf_token(session_credential.secret).encode()):
                raise Refused("bad_csrf", f"the page is out of date: reload it ({CSRF})")
        return caller

    async def _cli_id_caller(self, credential: Credential) -> Caller:
        """Return the caller of a CLI id, who is never an operator."""
        if self.feed.find_token(credential.secret) is None:
            await self.claim_cli_id(credential.secret)
        caller = self._token_caller(credential)
        return replace(caller, scopes=caller.scopes - STAFF_SCOPES)

    async def _named_caller(self, request: Request) -> Caller:
        """Return the caller by name, where names are believed."""
        name = request.headers[PARTICIPANT_HEADER]
        check_name(name, "invalid_credential", "participant")
        is_read = request.method in SAFE_METHODS
        account = await (
            self.account_store.find_account(name)
            if is_read
            else self.account_store.open_account(name)
        )
        return self.feed.rights().named_caller(account, name, now())

    def _session_credential(self, request: Request) -> Credential | None:
        secret = self.config.cookies.read(request, SESSION_COOKIE)
        return parse_credential(SESSION_COOKIE, secret)

    def _token(self, credential: Credential) -> Token | None:
        """Return the valid token of a credential; a cookie must be a session, a header must not."""
        token = self.feed.find_token(credential.secret)
        is_cookie = credential.header == SESSION_COOKIE
        return token if token and token.is_session == is_cookie else None

    def _token_caller(self, credential: Credential) -> Caller:
        at = now()
        token = self._token(credential)
        if token is None:
            message = f"this token is unknown, expired or revoked: {LOGIN_HINT}"
            raise Refused("invalid_credential", message, credential.header.lower())
        self.usage.record(token.id, at)
        return self.feed.rights().caller(token, at)
