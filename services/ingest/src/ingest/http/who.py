"""Who asks: an operator, a participant by one of their tokens, or nobody in particular."""

import hmac
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from ipaddress import IPv6Address, ip_address

from fastapi import Request

from ingest.domain.accounts import NAME
from ingest.domain.callers import ANONYMOUS, STAFF_SCOPES, Caller, check_problem, check_scope
from ingest.http.credentials import Shown, bearer, only
from ingest.http.credentials import shown as as_shown
from ingest.http.edge import SAFE, Edge
from ingest.service.gate import AccessFeed
from ingest.service.linking import Linking
from ingest.service.people import People
from ingest.service.tokens import Tokens, csrf
from shared.clock import now
from shared.errors import Failed, Refused

COOKIE = "warpboard_session"
CSRF = "X-CSRF-Token"
NAMED = "Warpboard-Participant"
OPERATOR = "Warpboard-Operator"
CLI_IDS = ("X-Popcorn-Cli-Id", "X-Web-Auth-Id")
UNKNOWN = ("invalid_credential", "cli_id_not_linked")
HOW = (
    "send the header Authorization: Bearer <token>; `warpboard login` makes one, and so does the "
    "web page /login"
)


@dataclass(frozen=True)
class Keys:
    """Who is let in without a token in the log: an operator by a secret, anybody by a name.

    An empty operator token lets nobody in. `edge` knows whom the Discord edge vouches for.
    """

    operator_token: str = field(default="", repr=False)
    are_names_believed: bool = False
    edge: Edge = field(default_factory=Edge)


class Gate:
    """Tells every route who asks, and keeps out who may not."""

    def __init__(
        self, feed: AccessFeed, people: People, tokens: Tokens, linking: Linking, keys: Keys
    ) -> None:
        self._feed = feed
        self._people = people
        self._tokens = tokens
        self._linking = linking
        self._operator_token = keys.operator_token.encode()
        self._edge = keys.edge
        self.are_names_believed = keys.are_names_believed

    async def caller(self, request: Request) -> Caller:
        """Who asks for what anybody may have; who cannot be told is nobody.

        Errors: Refused `conflicting_credentials`; Failed.
        """
        if operator := self._operator(request):
            return operator
        try:
            return await self._participant(request) or ANONYMOUS
        except Refused as refused:
            if refused.code in UNKNOWN:
                return ANONYMOUS
            raise

    async def check_credential(self, request: Request) -> None:
        """Refuse a request without a valid credential, as its route would. Errors: Failed too."""
        if (await self.caller(request)).kind == "anonymous":
            await self.participant()(request)

    def participant(self, scope: str = "") -> Callable[[Request], Awaitable[Caller]]:
        """A dependency: the participant who asks, with this scope. Errors: Refused; Failed."""

        async def found(request: Request) -> Caller:
            caller = await self._participant(request)
            if caller is None:
                raise Refused("missing_credential", f"say who you are: {HOW}", "authorization")
            if scope:
                check_scope(caller, scope)
            return await self._named(caller)

        return found

    def keeper(self) -> Callable[[Request], Awaitable[Caller]]:
        """A dependency: who may look after their own tokens, as one may on Discord as well.

        There one lists and ends them, and links a CLI id; none is made. Errors: Refused; Failed.
        """

        async def found(request: Request) -> Caller:
            caller = await self.participant()(request)
            if not caller.keeps_tokens:
                check_scope(caller, "account")
            return caller

        return found

    def operator(self, scope: str) -> Callable[[Request], Awaitable[str]]:
        """A dependency: the actor of a request that needs a scope of operators.

        Errors: Refused; Failed.
        """

        async def found(request: Request) -> str:
            return (await self.staff(request, scope)).actor

        return found

    async def staff(self, request: Request, scope: str = "") -> Caller:
        """Who asks for what needs a scope of operators, this or any. Errors: Refused; Failed."""
        if self._edge.is_shown(bearer(request)):
            caller = await self._edge.caller(request)
        else:
            caller = self._operator(request) or self._by_token(request)
        if caller is None:
            raise Refused("missing_credential", f"operators show a token: {HOW}", "authorization")
        if scope or not caller.is_staff:
            check_scope(caller, scope or "admin")
        return caller

    async def either(self, request: Request, scope: str, staff_scope: str) -> Caller:
        """Who asks for what participants may do with their own, and operators with anybody's.

        Errors: Refused; Failed.
        """
        caller = self._operator(request) or await self.participant()(request)
        if not caller.may(staff_scope):
            check_scope(caller, scope)
        return caller

    async def author(self, request: Request, slug: str) -> Caller:
        """Who asks to publish a problem: its author, a new author, or an operator.

        Errors: Refused, `not_yours` for another author's; Failed.
        """
        caller = self._operator(request) or await self.participant()(request)
        if not caller.may("admin:problems"):
            check_scope(caller, "author")
            check_problem(caller, slug)
            self._feed.now().check_owns(caller, slug)
        return caller

    def runs(self) -> Callable[[Request], Awaitable[Caller]]:
        """A dependency: who may run leaderboards, their own or all. Errors: Refused; Failed."""

        async def found(request: Request) -> Caller:
            return await self.either(request, "author", "admin:problems")

        return found

    def manager(self) -> Callable[[Request], Awaitable[Caller]]:
        """A dependency: who may run the leaderboard `slug` of the path: its author, or an operator.

        Errors: Refused; Failed.
        """

        async def found(request: Request) -> Caller:
            caller = await self.either(request, "author", "admin:problems")
            self.check_manages(caller, request.path_params["slug"].lower())
            return caller

        return found

    def check_manages(self, caller: Caller, slug: str) -> None:
        """Refuse who may not run a leaderboard. Errors: Refused; Failed."""
        self._feed.now().check_manages(caller, slug)

    def edge(self, request: Request) -> None:
        """Let the Discord edge itself in alone. Errors: Refused."""
        self._edge.check(bearer(request))

    def payer(self, request: Request) -> str | None:
        """Whose rate a request counts to: a token's, else its address's; None for operators'.

        An unknown token pays for nobody, so its address does.
        """
        try:
            shown = bearer(request)
            if self._edge.is_shown(shown):
                return self._edge.payer(request)
            headers = [as_shown(header, only(request, header.lower())) for header in CLI_IDS]
        except Refused:  # Who shows two of a kind is refused later, and pays by their address.
            shown, headers = None, []
        if shown is not None and self._is_operators(shown):
            return None
        cookie = as_shown(COOKIE, request.cookies.get(COOKIE, ""))
        for one in (shown, *headers, cookie):
            token = None if one is None or self._feed.ill() else self._tokens.known(one.secret)
            if token is not None:
                return f"token {token.id}"
        return f"address {whence(request)}"

    def board(self, caller: Caller, slug: str) -> None:
        """Refuse who may not see a leaderboard. Errors: Refused; Failed."""
        self._feed.now().check_sees(caller, slug)

    def _operator(self, request: Request) -> Caller | None:
        """Who shows the operators' own token; None for others. Errors: Refused for a bad name."""
        shown = bearer(request)
        if shown is None or not self._is_operators(shown):
            return None
        name = checked_name(request.headers.get(OPERATOR, "admin"), "operator")
        return Caller(name=name, scopes=STAFF_SCOPES, kind="operator")

    def _is_operators(self, shown: Shown) -> bool:
        # Headers are bytes, which starlette shows as Latin-1.
        given, own = shown.secret.encode("latin-1"), self._operator_token
        return bool(own) and hmac.compare_digest(given, own)

    async def _participant(self, request: Request) -> Caller | None:
        """Errors: Refused for a credential that is nobody's, and for those of two people."""
        if self._edge.is_shown(bearer(request)):
            return await self._edge.caller(request)
        found = self._by_token(request)
        for header in CLI_IDS:
            shown = as_shown(header, only(request, header.lower()))
            if shown is None:
                continue
            other = await self._by_cli_id(shown)
            if found is not None and found.account != other.account:
                what = f"Authorization and {header} are of different participants: send one"
                raise Refused("conflicting_credentials", what, header.lower())
            found = found or other
        if found is None and self.are_names_believed:
            return await self._by_name(request)
        return found

    def _by_token(self, request: Request) -> Caller | None:
        """Who asks by a token or, without one, by the cookie of a login. Errors: Refused."""
        shown = bearer(request)
        if shown is not None and not self._is_operators(shown):
            return self._known(shown)
        session = as_shown(COOKIE, request.cookies.get(COOKIE, ""))
        if shown is not None or session is None:
            return None
        caller = self._known(session)
        if request.method not in SAFE:
            given = request.headers.get(CSRF, "")
            if not hmac.compare_digest(given.encode("latin-1"), csrf(session.secret).encode()):
                raise Refused("bad_csrf", f"the page is too old: load it again ({CSRF})")
        return caller

    async def _by_cli_id(self, shown: Shown) -> Caller:
        """Who asks by the header of another client, which never makes an operator of them."""
        if self._tokens.known(shown.secret) is None:
            await self._linking.claim(shown.secret)
        caller = self._known(shown)
        return replace(caller, scopes=caller.scopes - STAFF_SCOPES)

    async def _by_name(self, request: Request) -> Caller | None:
        """Who asks by a name, on a machine where names are believed."""
        if NAMED not in request.headers:
            return None
        name = checked_name(request.headers[NAMED], "participant")
        register = self._people.register
        reads = request.method in SAFE
        account = await (register.known(name) if reads else register.account(name))
        return self._feed.now().local(account, name, now())

    def _known(self, shown: Shown) -> Caller:
        at = now()
        token = self._tokens.known(shown.secret)
        if token is None:
            what = f"this token is unknown, expired or revoked: {HOW}"
            raise Refused("invalid_credential", what, shown.header.lower())
        self._tokens.used(token.id, at)
        return self._feed.now().caller(token, at)

    async def _named(self, caller: Caller) -> Caller:
        if caller.name or caller.account is None:
            return caller
        try:
            return replace(caller, name=await self._people.name_of(caller.account))
        except Failed:
            # A name is for people to read: nothing waits for it.
            return replace(caller, name=caller.account)


def whence(request: Request) -> str:
    """Where a request comes from, as limits count it: one machine has a whole /64 of IPv6."""
    host = request.client.host if request.client else ""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if isinstance(address, IPv6Address) and not (address.ipv4_mapped or address.is_loopback):
        return str(IPv6Address(int(address) >> 64 << 64))
    return host


def checked_name(name: str, field: str) -> str:
    """A name as it may come in a header. Errors: Refused `invalid_credential`."""
    if not NAME.match(name):
        what = f"{name!r} is no name: 1 to 32 of a-z 0-9 _ and -, a letter or digit first"
        raise Refused("invalid_credential", what, field)
    return name
