"""Devices that ask to act for somebody, by RFC 8628."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from ingest.domain.callers import Caller
from ingest.login.domain import (
    POLL_EVERY_S,
    POLL_LENIENCY_S,
    DeviceLogin,
    asked_scopes,
    check_answered,
    check_device,
    check_granted,
    ends_at,
    network_of,
    plain_code,
)
from ingest.login.ports import DeviceLogins
from ingest.login.service.secret import drawn, drawn_code, token_of
from ingest.service.gate import digest
from ingest.service.tokens import NewToken, Tokens
from ingest.service.tries import Tries
from shared.errors import Failed, Refused

CODES_TRIED_MAX = 5
KIND = "device"


class Begun(NamedTuple):
    """What a device is told when it begins."""

    device_code: str
    user_code: str


class Given(NamedTuple):
    """What a device is given: the token, whose it is, what it may, until when."""

    secret: str
    account: str
    scopes: tuple[str, ...]
    expires_at: datetime


@dataclass(frozen=True)
class Devices:
    """What is done with devices; `guesses` limits how often somebody may try a user code."""

    logins: DeviceLogins
    tokens: Tokens
    guesses: Tries
    clock: Callable[[], datetime]

    async def begin(self, client: str, scope: str, address: str | None) -> Begun:
        """Let a device wait for somebody to enter its user code. Errors: Refused; Failed."""
        at, scopes = self.clock(), asked_scopes(scope)
        login = DeviceLogin(client, scopes, network_of(address), at, ends_at(at))
        device_code = drawn()
        for _ in range(CODES_TRIED_MAX):
            code = drawn_code()
            if await self.logins.add(digest(device_code), code, login):
                return Begun(device_code, code)
        raise Failed("no free user code was found: try again")

    async def preview(self, user_code: str, caller: Caller) -> DeviceLogin:
        """Who shows a user code, and what they ask for. Errors: Refused; Failed."""
        # Those that are right count too: one's own codes would buy endless guesses otherwise.
        self.guesses.take(caller.id)
        found = check_device(await self.logins.by_code(plain_code(user_code)), self.clock())
        check_granted(found, caller)
        return found

    async def answer(self, user_code: str, caller: Caller, is_let_in: bool) -> DeviceLogin:
        """Let the device in as this participant, or turn it away. Errors: Refused; Failed."""
        found = await self.preview(user_code, caller)
        account = caller.id if is_let_in else None
        if not await self.logins.answer(plain_code(user_code), account, self.clock()):
            raise Refused("user_code_used", "this code was answered already", "user_code")
        return found

    async def poll(self, device_code: str) -> Given:
        """What a device is given, once somebody let it in.

        Errors: Refused, with the codes of RFC 8628, 3.5; Failed.
        """
        device, at = digest(device_code), self.clock()
        since = at - timedelta(seconds=POLL_EVERY_S - POLL_LENIENCY_S)
        is_in_time = await self.logins.polled(device, at, since)
        found = await self.logins.by_hash(device)
        if found is not None and not is_in_time:
            raise Refused("slow_down", f"ask once in {POLL_EVERY_S} s", None, POLL_EVERY_S)
        found, account = check_answered(found, at)
        ends = found.grant_ends_at
        secret = token_of(device_code)
        # A process may have ended between giving the token and noting that.
        if found.token is None and self.tokens.known(secret) is None:
            name = f"{found.client} {found.requested_at:%Y-%m-%d}"
            new = NewToken(KIND, name, found.scopes, ends, secret=secret)
            issued = await self.tokens.issue(account, new, f"account:{account}")
            await self.logins.finish(device, issued.number)
        return Given(secret, account, tuple(found.scopes), ends)
