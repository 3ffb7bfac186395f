"""Browsers that go to another provider to be vouched for, and come back."""

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from ingest.login.domain import ends_at, local_path
from ingest.login.ports import LoginState, LoginStates, Provider, Providers, Stranger
from ingest.login.service.arrivals import Arrivals
from ingest.login.service.secret import challenge, drawn
from ingest.service.gate import digest
from shared.errors import Refused

LOGIN, CLI = "login", "cli"


class Departure(NamedTuple):
    """Where a browser goes, and what it must bring back as its cookie."""

    address: str
    cookie: str


class Back(NamedTuple):
    """What a browser brings back: the state from the provider, and our own cookie."""

    state: str
    cookie: str


class Return(NamedTuple):
    """Who came back, and to which page."""

    account: str
    next_path: str


@dataclass(frozen=True)
class Journeys:
    """Logins by other providers; `base` is our own public address."""

    providers: Providers
    states: LoginStates
    arrivals: Arrivals
    clock: Callable[[], datetime]
    base: str

    def provider(self, name: str) -> Provider:
        """A provider that is set up here. Errors: Refused."""
        found = self.providers.get(name)
        if found is None:
            raise Refused("not_found", f"nobody logs in with {name[:32]!r} here")
        return found

    async def leave(self, name: str, next_path: str, account: str | None) -> Departure:
        """Send a browser off; `account` is who is logged in, and links. Errors: Refused; Failed."""
        provider = self.provider(name)
        state, cookie, verifier = drawn(), drawn(), drawn()
        kept = LoginState(
            LOGIN, name, digest(cookie), verifier, account, next_path, ends_at(self.clock())
        )
        await self.states.add(digest(state), kept)
        redirect = self._redirect(name)
        return Departure(provider.address(redirect, state, challenge(verifier)), cookie)

    async def arrive(self, name: str, code: str, back: Back, here: str | None) -> Return:
        """Who came back, as a participant; `here` is who is logged in. Errors: Refused; Failed."""
        provider = self.provider(name)
        kept = await self._taken(back.state, LOGIN, name)
        if not hmac.compare_digest(kept.bound_to, digest(back.cookie)):
            # Somebody's link to the end of their own login would log this browser in as them.
            raise Refused("login_refused", "this login was begun in another browser: begin again")
        if kept.account not in (None, here):
            # Whoever logged out meanwhile left; who came after them must not become them.
            raise Refused("login_refused", "who began this is logged out: log in and begin again")
        stranger = await provider.stranger(code, self._redirect(name), kept.verifier)
        if kept.account is None:
            account = await self.arrivals.by_stranger(name, stranger)
        else:
            account = kept.account
            await self.arrivals.link(account, name, stranger)
        return Return(account, local_path(kept.next_path))

    async def vouched(self, name: str, code: str) -> Stranger:
        """Who came back by a journey that a client began, not we. Errors: Refused; Failed."""
        return await self.provider(name).stranger(code, f"{self.base}/auth/cli/{name}", None)

    async def ask(self, name: str, cli_id: str, account: str) -> str:
        """The ticket of a question to who came back, good for one answer. Errors: Failed."""
        ticket = drawn()
        kept = LoginState(CLI, name, digest(cli_id), "", account, "", ends_at(self.clock()))
        await self.states.add(digest(ticket), kept)
        return ticket

    async def answered(self, name: str, cli_id: str, ticket: str) -> str:
        """The account of who answers the question about a CLI id. Errors: Refused; Failed."""
        kept = await self._taken(ticket, CLI, name)
        if kept.account is None or not hmac.compare_digest(kept.bound_to, digest(cli_id)):
            raise Refused("login_refused", "this answer is to another question: begin again")
        return kept.account

    async def _taken(self, state: str, purpose: str, name: str) -> LoginState:
        kept = await self.states.take(digest(state))
        is_ours = kept is not None and (kept.purpose, kept.provider) == (purpose, name)
        if kept is None or not is_ours or kept.expires_at <= self.clock():
            what = "this login is over, or was never begun here: begin again"
            raise Refused("login_refused", what)
        return kept

    def _redirect(self, name: str) -> str:
        return f"{self.base}/login/{name}/callback"
