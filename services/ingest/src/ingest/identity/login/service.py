"""Logins of browsers and of devices (RFC 8628), and all logins together.

All methods may raise `Refused` and `Failed`.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from ingest.http.attempts import AttemptLimiter
from ingest.identity.access.fold import SESSION_KIND
from ingest.identity.accounts.service import Accounts, NewToken, Tokens
from ingest.identity.caller import Caller, account_actor
from ingest.identity.login.cli_ids import CliIds
from ingest.identity.login.postgres import LoginStore
from ingest.identity.login.rules import (
    POLL_EVERY_S,
    POLL_LENIENCY_S,
    SESSION_S,
    USER_CODE_LENGTH,
    USER_CODE_LETTERS,
    DeviceLogin,
    check_approved,
    check_device,
    check_holds_scopes,
    coarse_network,
    normalize_code,
    parse_scopes,
    pending_until,
)
from ingest.identity.login.sign_in import OAuthLogins, PasswordResets, SignIn
from ingest.identity.scopes import allowed_scopes
from ingest.identity.secrets import derive_token, hash_secret, new_secret
from shared.errors import Failed, Refused
from shared.events import SCOPES

DEVICE_KIND = "device"
# A person has a few browsers; a new session replaces the oldest one, so nobody is locked out.
SESSIONS_MAX = 10
CODES_TRIED_MAX = 5


def new_user_code() -> str:
    """Return a new user code."""
    return "".join(secrets.choice(USER_CODE_LETTERS) for _ in range(USER_CODE_LENGTH))


class Session(NamedTuple):
    """A logged-in caller, and the secret of their session."""

    caller: Caller
    secret: str


@dataclass(frozen=True)
class Sessions:
    """Browser sessions."""

    tokens: Tokens
    people: Accounts

    async def open(self, account: str) -> str:
        """Open a session and return its secret, valid for 12 hours."""
        actor, access = account_actor(account), self.tokens.feed.rights()
        sessions = [token for token in access.tokens_of(account) if token.is_session]
        for old in sessions[: max(0, len(sessions) - SESSIONS_MAX + 1)]:
            await self.tokens.revoke(account, old.number, "replaced by a newer login", actor)
        at = self.tokens.clock()
        role_scopes = allowed_scopes(access.roles.get(account, ()))
        scopes = [scope for scope in SCOPES if scope in role_scopes]
        ends_at = at + timedelta(seconds=SESSION_S)
        new = NewToken(SESSION_KIND, f"web login {at:%Y-%m-%d}", scopes, ends_at)
        return (await self.tokens.issue(account, new, actor)).secret

    async def find(self, secret: str) -> Session | None:
        """Return the live session of a secret, or None."""
        token = self.tokens.feed.find_token(secret) if secret else None
        if token is None or not token.is_session:
            return None
        at = self.tokens.clock()
        self.tokens.usage.record(token.id, at)
        caller = self.tokens.feed.rights().caller(token, at)
        return Session(replace(caller, name=await self.people.name_of(caller.id)), secret)

    async def close(self, secret: str) -> None:
        """End a session; harmless if it has ended."""
        token = self.tokens.feed.find_token(secret) if secret else None
        if token is not None and token.is_session:
            actor = account_actor(token.account)
            await self.tokens.revoke(token.account, token.number, "logged out", actor)


class DeviceGrant(NamedTuple):
    """The token of a device, with its account, scopes and expiry."""

    secret: str
    account: str
    scopes: Sequence[str]
    expires_at: datetime


@dataclass(frozen=True)
class Devices:
    """Device logins; `guesses` limits how often a participant may enter user codes."""

    store: LoginStore
    tokens: Tokens
    guesses: AttemptLimiter

    async def begin(self, client: str, scope: str, address: str | None) -> tuple[str, str]:
        """Start a device login; return its device code and its user code."""
        at, scopes = self.tokens.clock(), [*parse_scopes(scope)]
        login = DeviceLogin(client, scopes, coarse_network(address), at, pending_until(at))
        device_code = new_secret()
        for _ in range(CODES_TRIED_MAX):
            code = new_user_code()
            values = {"device": hash_secret(device_code), "code": code, **vars(login)}
            if await self.store.execute("add_device_login", **values) == 1:
                return device_code, code
        raise Failed("no free user code was found: try again")

    async def preview(self, user_code: str, caller: Caller) -> DeviceLogin:
        """Return the device with a user code."""
        # Correct codes count, too: otherwise one's own codes would buy unlimited guesses.
        self.guesses.take(caller.id)
        code, at = normalize_code(user_code), self.tokens.clock()
        login = check_device(
            await self.store.find(DeviceLogin, "device_login_by_code", code=code), at
        )
        check_holds_scopes(login, caller)
        return login

    async def answer(self, user_code: str, caller: Caller, is_let_in: bool) -> DeviceLogin:
        """Approve or deny a device for this participant."""
        login = await self.preview(user_code, caller)
        answered = await self.store.execute(
            "answer_device_login",
            code=normalize_code(user_code),
            account=caller.id if is_let_in else None,
            is_denied=not is_let_in,
            at=self.tokens.clock(),
        )
        if not answered:
            raise Refused("user_code_used", "this code was already used", "user_code")
        return login

    async def poll(self, device_code: str) -> DeviceGrant:
        """Return the token of an approved device, else refuse as RFC 8628, 3.5 says."""
        device, at = hash_secret(device_code), self.tokens.clock()
        since = at - timedelta(seconds=POLL_EVERY_S - POLL_LENIENCY_S)
        polled = await self.store.execute("poll_device_login", device=device, at=at, since=since)
        login = await self.store.find(DeviceLogin, "device_login_by_hash", device=device)
        if login is not None and not polled:
            raise Refused("slow_down", f"poll once in {POLL_EVERY_S} s", None, POLL_EVERY_S)
        login, account = check_approved(login, at)
        secret = derive_token(device_code)
        # A process may have ended between issuing the token and storing its number.
        if login.token is None and self.tokens.feed.find_token(secret) is None:
            name, ends_at = f"{login.client} {login.requested_at:%Y-%m-%d}", login.grant_ends_at
            new = NewToken(DEVICE_KIND, name, login.scopes, ends_at, secret=secret)
            issued = await self.tokens.issue(account, new, account_actor(account))
            await self.store.execute("finish_device_login", device=device, token=issued.number)
        return DeviceGrant(secret, account, login.scopes, login.grant_ends_at)


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
    resets: PasswordResets
    tokens: Tokens
    people: Accounts
    cli_id_attempts: AttemptLimiter
    login_attempts: AttemptLimiter
