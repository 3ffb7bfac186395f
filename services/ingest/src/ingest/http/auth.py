"""Authentication: operators, participants by token, session or name, and anonymous callers."""

import hmac
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from ipaddress import IPv6Address, ip_address

from fastapi import Request

from ingest.access.callers import ANONYMOUS, STAFF_SCOPES, Caller, check_problem, check_scope
from ingest.access.feed import AccessFeed
from ingest.accounts.rules import check_name
from ingest.accounts.service import Accounts
from ingest.accounts.tokens import CliIdLinking, Tokens, csrf_token
from ingest.http.credentials import SAFE_METHODS, Credential, Edge, bearer_credential, single_header
from ingest.http.credentials import parse_credential as as_shown
from shared.clock import now
from shared.errors import Failed, Refused

COOKIE = "warpboard_session"
CSRF = "X-CSRF-Token"
PARTICIPANT_HEADER = "Warpboard-Participant"
OPERATOR_HEADER = "Warpboard-Operator"
CLI_ID_HEADERS = ("X-Popcorn-Cli-Id", "X-Web-Auth-Id")
UNKNOWN = ("invalid_credential", "cli_id_not_linked")
LOGIN_HINT = (
    "send the header Authorization: Bearer <token>; create one with `warpboard login` or on the "
    "web page /login"
)


@dataclass(frozen=True)
class AuthConfig:
    """The ways in beside tokens in the log: the operator token and believed names.

    An empty operator token lets nobody in. `edge` authenticates the Discord edge.
    """

    operator_token: str = field(default="", repr=False)
    are_names_believed: bool = False
    edge: Edge = field(default_factory=Edge)


class Authenticator:
    """Authenticates requests, and provides the FastAPI dependencies that routes use."""

    def __init__(
        self,
        feed: AccessFeed,
        people: Accounts,
        tokens: Tokens,
        linking: CliIdLinking,
        keys: AuthConfig,
    ) -> None:
        self._feed = feed
        self._people = people
        self._tokens = tokens
        self._linking = linking
        self._operator_token = keys.operator_token.encode()
        self._edge = keys.edge
        self.are_names_believed = keys.are_names_believed

    async def caller(self, request: Request) -> Caller:
        """Return the caller of a public route; without a valid credential they are anonymous.

        Raises `Refused` (`conflicting_credentials`) and `Failed`.
        """
        if operator := self._operator_caller(request):
            return operator
        try:
            return await self._participant_caller(request) or ANONYMOUS
        except Refused as refused:
            if refused.code in UNKNOWN:
                return ANONYMOUS
            raise

    async def check_credential(self, request: Request) -> None:
        """Refuse a request without a valid credential, as its route would. Raises `Failed`, too."""
        if (await self.caller(request)).kind == "anonymous":
            await self.participant()(request)

    def participant(self, scope: str = "") -> Callable[[Request], Awaitable[Caller]]:
        """Return a dependency: a participant with this scope. It raises `Refused` and `Failed`."""

        async def require_participant(request: Request) -> Caller:
            caller = await self._participant_caller(request)
            if caller is None:
                raise Refused("missing_credential", f"no credential: {LOGIN_HINT}", "authorization")
            if scope:
                check_scope(caller, scope)
            return await self._with_name(caller)

        return require_participant

    def token_manager(self) -> Callable[[Request], Awaitable[Caller]]:
        """Return a dependency: a participant who may manage their own tokens, also on Discord.

        On Discord they may list and revoke tokens and link a CLI id, but not create tokens. It
        raises `Refused` and `Failed`.
        """

        async def require_keeper(request: Request) -> Caller:
            caller = await self.participant()(request)
            if not caller.keeps_tokens:
                check_scope(caller, "account")
            return caller

        return require_keeper

    def operator(self, scope: str) -> Callable[[Request], Awaitable[str]]:
        """Return a dependency: the actor of a request that needs an operator scope.

        It raises `Refused` and `Failed`.
        """

        async def require_operator(request: Request) -> str:
            return (await self.staff(request, scope)).actor

        return require_operator

    async def staff(self, request: Request, scope: str = "") -> Caller:
        """Return a caller with this operator scope, or with any. Raises `Refused` and `Failed`."""
        if self._edge.is_edge(bearer_credential(request)):
            caller = await self._edge.caller(request)
        else:
            caller = self._operator_caller(request) or self._token_or_session_caller(request)
        if caller is None:
            raise Refused(
                "missing_credential", f"operators need a token: {LOGIN_HINT}", "authorization"
            )
        if scope or not caller.is_staff:
            check_scope(caller, scope or "admin")
        return caller

    async def participant_or_staff(self, request: Request, scope: str, staff_scope: str) -> Caller:
        """Return a caller who is a participant with one scope or an operator with another.

        Raises `Refused` and `Failed`.
        """
        caller = self._operator_caller(request) or await self.participant()(request)
        if not caller.may(staff_scope):
            check_scope(caller, scope)
        return caller

    async def author(self, request: Request, slug: str) -> Caller:
        """Return the caller who publishes a problem: its author, a new author or an operator.

        Raises `Refused` (`not_yours` for a problem of another author) and `Failed`.
        """
        caller = self._operator_caller(request) or await self.participant()(request)
        if not caller.may("admin:problems"):
            check_scope(caller, "author")
            check_problem(caller, slug)
            self._feed.now().check_owns(caller, slug)
        return caller

    def author_or_operator(self) -> Callable[[Request], Awaitable[Caller]]:
        """Return a dependency: an author or operator. It raises `Refused` and `Failed`."""

        async def require_author(request: Request) -> Caller:
            return await self.participant_or_staff(request, "author", "admin:problems")

        return require_author

    def leaderboard_manager(self) -> Callable[[Request], Awaitable[Caller]]:
        """Return a dependency: the author of the leaderboard `slug` in the path, or an operator.

        It raises `Refused` and `Failed`.
        """

        async def require_manager(request: Request) -> Caller:
            caller = await self.participant_or_staff(request, "author", "admin:problems")
            self.check_manages(caller, request.path_params["slug"].lower())
            return caller

        return require_manager

    def check_manages(self, caller: Caller, slug: str) -> None:
        """Refuse a caller who may not manage a leaderboard. Raises `Refused` and `Failed`."""
        self._feed.now().check_manages(caller, slug)

    def edge(self, request: Request) -> None:
        """Refuse everybody but the Discord edge itself. Raises `Refused`."""
        self._edge.check(bearer_credential(request))

    def rate_limit_key(self, request: Request) -> str | None:
        """Return whose rate limit a request counts against: a token or an address.

        None for operators. An unknown token counts against its address.
        """
        try:
            credential = bearer_credential(request)
            if self._edge.is_edge(credential):
                return self._edge.rate_limit_key(request)
            headers = [
                as_shown(header, single_header(request, header.lower()))
                for header in CLI_ID_HEADERS
            ]
        except Refused:  # Two of one kind are refused later and count against the address.
            credential, headers = None, []
        if credential is not None and self._is_operators(credential):
            return None
        cookie = as_shown(COOKIE, request.cookies.get(COOKIE, ""))
        for candidate in (credential, *headers, cookie):
            token = (
                None
                if candidate is None or self._feed.ill()
                else self._tokens.known(candidate.secret)
            )
            if token is not None:
                return f"token {token.id}"
        return f"address {client_address(request)}"

    def check_sees(self, caller: Caller, slug: str) -> None:
        """Refuse a caller who may not see a leaderboard. Raises `Refused` and `Failed`."""
        self._feed.now().check_sees(caller, slug)

    def _operator_caller(self, request: Request) -> Caller | None:
        """Return the caller if this is the operator token, else None.

        Raises `Refused` for a bad name.
        """
        credential = bearer_credential(request)
        if credential is None or not self._is_operators(credential):
            return None
        name = check_name(
            request.headers.get(OPERATOR_HEADER, "admin"), "invalid_credential", "operator"
        )
        return Caller(name=name, scopes=STAFF_SCOPES, kind="operator")

    def _is_operators(self, credential: Credential) -> bool:
        # Headers are bytes, which starlette decodes as Latin-1.
        secret, operator_token = credential.secret.encode("latin-1"), self._operator_token
        return bool(operator_token) and hmac.compare_digest(secret, operator_token)

    async def _participant_caller(self, request: Request) -> Caller | None:
        """Raises `Refused` for an invalid credential and for credentials of two participants."""
        if self._edge.is_edge(bearer_credential(request)):
            return await self._edge.caller(request)
        caller = self._token_or_session_caller(request)
        for header in CLI_ID_HEADERS:
            credential = as_shown(header, single_header(request, header.lower()))
            if credential is None:
                continue
            cli_caller = await self._cli_id_caller(credential)
            if caller is not None and caller.account != cli_caller.account:
                message = (
                    f"Authorization and {header} belong to different participants: send one of them"
                )
                raise Refused("conflicting_credentials", message, header.lower())
            caller = caller or cli_caller
        if caller is None and self.are_names_believed:
            return await self._named_caller(request)
        return caller

    def _token_or_session_caller(self, request: Request) -> Caller | None:
        """Return the caller of a token or else of the session cookie. Raises `Refused`."""
        credential = bearer_credential(request)
        if credential is not None and not self._is_operators(credential):
            return self._token_caller(credential)
        session_credential = as_shown(COOKIE, request.cookies.get(COOKIE, ""))
        if credential is not None or session_credential is None:
            return None
        caller = self._token_caller(session_credential)
        if request.method not in SAFE_METHODS:
            sent_csrf = request.headers.get(CSRF, "")
            if not hmac.compare_digest(
                sent_csrf.encode("latin-1"), csrf_token(session_credential.secret).encode()
            ):
                raise Refused("bad_csrf", f"the page is out of date: reload it ({CSRF})")
        return caller

    async def _cli_id_caller(self, credential: Credential) -> Caller:
        """Return the caller of a CLI id, who is never an operator."""
        if self._tokens.known(credential.secret) is None:
            await self._linking.claim(credential.secret)
        caller = self._token_caller(credential)
        return replace(caller, scopes=caller.scopes - STAFF_SCOPES)

    async def _named_caller(self, request: Request) -> Caller | None:
        """Return the caller by name, where names are believed."""
        if PARTICIPANT_HEADER not in request.headers:
            return None
        name = check_name(request.headers[PARTICIPANT_HEADER], "invalid_credential", "participant")
        register = self._people.register
        is_read = request.method in SAFE_METHODS
        account = await (register.known(name) if is_read else register.account(name))
        return self._feed.now().local(account, name, now())

    def _token_caller(self, credential: Credential) -> Caller:
        at = now()
        token = self._tokens.known(credential.secret)
        if token is None:
            message = f"this token is unknown, expired or revoked: {LOGIN_HINT}"
            raise Refused("invalid_credential", message, credential.header.lower())
        self._tokens.used(token.id, at)
        return self._feed.now().caller(token, at)

    async def _with_name(self, caller: Caller) -> Caller:
        if caller.name or caller.account is None:
            return caller
        try:
            return replace(caller, name=await self._people.name_of(caller.account))
        except Failed:
            # A name is only for display, so a failure does not stop the request.
            return replace(caller, name=caller.account)


def client_address(request: Request) -> str:
    """Return the address of the client; an IPv6 address as its /64 network."""
    host = request.client.host if request.client else ""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if isinstance(address, IPv6Address) and not (address.ipv4_mapped or address.is_loopback):
        return str(IPv6Address(int(address) >> 64 << 64))
    return host
