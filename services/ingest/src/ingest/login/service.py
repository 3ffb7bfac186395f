"""Logins of clients: browser sessions, CLI ids and devices (RFC 8628)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from ingest.access.callers import Caller, allowed_scopes
from ingest.access.feed import hash_secret
from ingest.access.rules import Token
from ingest.accounts.service import Accounts
from ingest.accounts.tokens import CLI_SCOPES, CliIdLinking, NewToken, Tokens
from ingest.attempt_limiter import AttemptLimiter
from ingest.login.postgres import PostgresCliLoginStore, PostgresDeviceLoginStore
from ingest.login.rules import (
    CLI_ID,
    POLL_EVERY_S,
    POLL_LENIENCY_S,
    SESSION_S,
    CliLogin,
    DeviceLogin,
    check_approved,
    check_cli,
    check_device,
    check_holds_scopes,
    coarse_network,
    normalize_code,
    parse_scopes,
    pending_until,
)
from ingest.login.secrets import derive_token, new_secret, new_user_code
from ingest.login.sign_in import OAuthLogins, SignIn
from shared.errors import Failed, Refused
from shared.events import SCOPES

SESSION_KIND = "web"
# A person has a few browsers; a new session replaces the oldest one, so nobody is locked out.
SESSIONS_MAX = 10

CODES_TRIED_MAX = 5
DEVICE_KIND = "device"


@dataclass(frozen=True)
class Session:
    """A logged-in caller, and the secret of their session."""

    caller: Caller
    secret: str


@dataclass(frozen=True)
class Sessions:
    """Browser sessions."""

    tokens: Tokens
    people: Accounts
    clock: Callable[[], datetime]

    async def open(self, account: str) -> str:
        """Open a session and return its secret, valid for 12 hours.

        Raises `Refused` and `Failed`.
        """
        by = f"account:{account}"
        web_sessions = [
            session_token
            for session_token in self.tokens.feed.now().tokens_of(account)
            if session_token.kind == SESSION_KIND
        ]
        for old in web_sessions[: max(0, len(web_sessions) - SESSIONS_MAX + 1)]:
            await self.tokens.revoke(account, old.number, "replaced by a newer login", by)
        at = self.clock()
        role_scopes = allowed_scopes(self.tokens.feed.now().roles.get(account, ()))
        scopes = [scope for scope in SCOPES if scope in role_scopes]
        ends_at = at + timedelta(seconds=SESSION_S)
        new = NewToken(SESSION_KIND, f"web login {at:%Y-%m-%d}", scopes, ends_at)
        return (await self.tokens.issue(account, new, by)).secret

    async def find(self, secret: str) -> Session | None:
        """Return the live session of a secret, or None. Raises `Failed`."""
        token = self.tokens.known(secret) if secret else None
        if token is None or token.kind != SESSION_KIND:
            return None
        at = self.clock()
        self.tokens.used(token.id, at)
        caller = self.tokens.feed.now().caller(token, at)
        name = await self.people.name_of(token.account)
        return Session(replace(caller, name=name), secret)

    async def close(self, secret: str) -> None:
        """End a session; harmless if it has ended. Raises `Failed`."""
        token = self.tokens.known(secret) if secret else None
        if token is not None and token.kind == SESSION_KIND:
            by = f"account:{token.account}"
            await self.tokens.revoke(token.account, token.number, "logged out", by)


@dataclass(frozen=True)
class CliIds:
    """Issues and links CLI ids."""

    logins: PostgresCliLoginStore
    linking: CliIdLinking
    tokens: Tokens
    clock: Callable[[], datetime]

    async def give(self, provider: str, address: str | None) -> str:
        """Issue a CLI id that waits to be linked. Raises `Failed`."""
        cli_id, at = new_secret(), self.clock()
        login = CliLogin(provider, coarse_network(address), at, pending_until(at))
        await self.logins.add(hash_secret(cli_id), login)
        return cli_id

    async def preview(self, cli_id: str, account: str) -> CliLogin:
        """Return who asked for a CLI id and from where. Raises `Refused` and `Failed`."""
        login = await self.logins.find(hash_secret(cli_id)) if CLI_ID.match(cli_id) else None
        is_live = self.tokens.known(cli_id) is not None
        return check_cli(login, account, is_live, self.clock())

    async def link(self, cli_id: str, account: str, scopes: Sequence[str] = CLI_SCOPES) -> Token:
        """Link a CLI id to a participant; repeating changes nothing.

        Raises `Refused` and `Failed`.
        """
        await self.preview(cli_id, account)
        if not await self.logins.claim(hash_secret(cli_id), account, self.clock()):
            # Somebody else was faster, or it expired meanwhile: this raises the right refusal.
            await self.preview(cli_id, account)
        if self.tokens.known(cli_id) is None:
            await self.linking.link(account, cli_id, scopes)
        token = self.tokens.known(cli_id)
        if token is None or token.account != account:
            raise Failed("the link has not taken effect yet: try again")
        return token


class DeviceCodes(NamedTuple):
    """The codes of a new device login."""

    device_code: str
    user_code: str


class DeviceGrant(NamedTuple):
    """The token of a device, with its account, scopes and expiry."""

    secret: str
    account: str
    scopes: tuple[str, ...]
    expires_at: datetime


@dataclass(frozen=True)
class Devices:
    """Device logins; `guesses` limits how often a participant may enter user codes."""

    logins: PostgresDeviceLoginStore
    tokens: Tokens
    guesses: AttemptLimiter
    clock: Callable[[], datetime]

    async def begin(self, client: str, scope: str, address: str | None) -> DeviceCodes:
        """Start a device login. Raises `Refused` and `Failed`."""
        at, scopes = self.clock(), parse_scopes(scope)
        login = DeviceLogin(client, scopes, coarse_network(address), at, pending_until(at))
        device_code = new_secret()
        for _ in range(CODES_TRIED_MAX):
            code = new_user_code()
            if await self.logins.add(hash_secret(device_code), code, login):
                return DeviceCodes(device_code, code)
        raise Failed("no free user code was found: try again")

    async def preview(self, user_code: str, caller: Caller) -> DeviceLogin:
        """Return the device with a user code. Raises `Refused` and `Failed`."""
        # Correct codes count, too: otherwise one's own codes would buy unlimited guesses.
        self.guesses.take(caller.id)
        login = check_device(await self.logins.by_code(normalize_code(user_code)), self.clock())
        check_holds_scopes(login, caller)
        return login

    async def answer(self, user_code: str, caller: Caller, is_let_in: bool) -> DeviceLogin:
        """Approve or deny a device for this participant. Raises `Refused` and `Failed`."""
        login = await self.preview(user_code, caller)
        account = caller.id if is_let_in else None
        if not await self.logins.answer(normalize_code(user_code), account, self.clock()):
            raise Refused("user_code_used", "this code was already used", "user_code")
        return login

    async def poll(self, device_code: str) -> DeviceGrant:
        """Return the token of a device once it is approved.

        Raises `Refused` with the codes of RFC 8628, 3.5, and `Failed`.
        """
        device_hash, at = hash_secret(device_code), self.clock()
        since = at - timedelta(seconds=POLL_EVERY_S - POLL_LENIENCY_S)
        is_in_time = await self.logins.polled(device_hash, at, since)
        login = await self.logins.by_hash(device_hash)
        if login is not None and not is_in_time:
            raise Refused("slow_down", f"poll once in {POLL_EVERY_S} s", None, POLL_EVERY_S)
        login, account = check_approved(login, at)
        ends_at = login.grant_ends_at
        secret = derive_token(device_code)
        # A process may have ended between issuing the token and storing its number.
        if login.token is None and self.tokens.known(secret) is None:
            name = f"{login.client} {login.requested_at:%Y-%m-%d}"
            new = NewToken(DEVICE_KIND, name, login.scopes, ends_at, secret=secret)
            issued = await self.tokens.issue(account, new, f"account:{account}")
            await self.logins.finish(device_hash, issued.number)
        return DeviceGrant(secret, account, tuple(login.scopes), ends_at)


@dataclass(frozen=True)
class Logins:
    """All logins; `public_url` is the public address of this platform.

    `cli_id_attempts` limits new CLI ids and `login_attempts` other logins, by client address.
    """

    public_url: str
    cli_ids: CliIds
    devices: Devices
    sessions: Sessions
    sign_in: SignIn
    oauth: OAuthLogins
    tokens: Tokens
    people: Accounts
    cli_id_attempts: AttemptLimiter
    login_attempts: AttemptLimiter
