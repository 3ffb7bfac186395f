"""Logins for tests, over a log in memory and a real Postgres."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta

import httpx
from argon2 import PasswordHasher
from fastapi import FastAPI
from psycopg_pool import AsyncConnectionPool

from ingest import ranker_http
from ingest.app import add_login_routes
from ingest.bootstrap import build_logins, ingest
from ingest.decisions import Decisions
from ingest.identity.access.feed import AccessFeed
from ingest.identity.access.usage import TokenUsage
from ingest.identity.accounts.service import Accounts, NewToken, Tokens
from ingest.identity.http.authenticator import AuthConfig, Authenticator
from ingest.identity.login.cli_ids import CliIdLinking, pending_cli_ids
from ingest.identity.login.postgres import LoginStore
from ingest.identity.login.service import Logins
from ingest.identity.login.sign_in import Argon2Hasher
from ingest.identity.login.web import Web
from ingest.ports import Ports
from ingest.postgres import PostgresAccountStore
from ingest.ranker_http import RankerClient
from ingest.settings import Settings
from ingest.site.pages import add_public_pages
from shared.clock import now
from shared.http import install_error_handlers
from shared.postgres import create_pool
from tests.support import door
from tests.support.memory import MemoryBlobStore, MemoryBus, MemoryDeadLetters, MemoryLog
from tests.support.waits import eventually

BASE = "http://127.0.0.1:8000"
PASSWORD = "correct horse battery"
SETTINGS = replace(door.SETTINGS, public_url=BASE, web_signup=True)
CSRF = re.compile(r'name="csrf" value="([0-9a-f]{64})"')


class MovableClock:
    """A clock that a test can move forward."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def __call__(self) -> datetime:
        """Return the current time, moved forward."""
        return now() + self.ahead

    def advance(self, **amount: float) -> None:
        """Move the clock forward: `minutes=10`."""
        self.ahead += timedelta(**amount)


class LoginHarness:
    """The application with all logins; each `browser` has its own cookies."""

    def __init__(self, app: FastAPI, all_ways: Logins, log: MemoryLog, clock: MovableClock) -> None:
        self.app = app
        self.logins = all_ways
        self.log = log
        self.clock = clock
        self.pool: AsyncConnectionPool | None = None

    def browser(self, address: str = "203.0.113.9") -> httpx.AsyncClient:
        """Return a client at an address that follows no redirects."""
        transport = httpx.ASGITransport(self.app, client=(address, 1))
        return httpx.AsyncClient(transport=transport, base_url=BASE)

    async def token(
        self, name: str, *scopes: str, problems: tuple[str, ...] = ()
    ) -> dict[str, str]:
        """Return the header of a token with these scopes for a participant."""
        account, _ = await self.logins.people.open(name, "test", "")
        new = NewToken("api", "test", scopes or ("account", "submit"), None, problems)
        issued = await self.logins.tokens.issue(account, new, f"account:{account}")
        return {"Authorization": f"Bearer {issued.secret}"}

    def events_of(self, kind: str) -> list[object]:
        """Return the events of a type that are in the log."""
        return [event.fact for event in self.log.since(0) if type(event.fact).__name__ == kind]


async def form_token(browser: httpx.AsyncClient, path: str) -> str:
    """Return the CSRF token in the form of a page."""
    page = await browser.get(path)
    match = CSRF.search(page.text)
    assert match, f"{path} answers {page.status_code} without a form: {page.text[:500]}"
    return match[1]


async def send_form(
    browser: httpx.AsyncClient, page: str, action: str, **fields: str | list[str]
) -> httpx.Response:
    """Fill in the form of a page and send it."""
    token = await form_token(browser, page)
    return await browser.post(action, data={"csrf": token} | fields)


async def register_in_browser(browser: httpx.AsyncClient, name: str = "ada") -> httpx.AsyncClient:
    """Register a new participant and return the logged-in browser."""
    answer = await send_form(browser, "/register", "/register", name=name, password=PASSWORD)
    assert answer.status_code == 303, answer.text
    return browser


@asynccontextmanager
async def open_logins(dsn: str, settings: Settings = SETTINGS) -> AsyncIterator[LoginHarness]:
    """Open the logins that these settings allow, without participants."""
    log, clock = MemoryLog(), MovableClock()
    async with create_pool(dsn, 1, 4) as connections, httpx.AsyncClient() as client:
        feed, register = AccessFeed(log, clock), PostgresAccountStore(connections)
        decisions = Decisions(log, clock, feed)
        following = asyncio.create_task(feed.run())
        await eventually(lambda: not feed.why_unhealthy())
        people, tokens = (
            Accounts(decisions, feed, register),
            Tokens(decisions, feed, register, TokenUsage(register)),
        )
        linking = CliIdLinking(
            people, tokens, is_pending=pending_cli_ids(LoginStore(connections), clock)
        )
        hashes = Argon2Hasher(PasswordHasher(time_cost=1, memory_cost=64, parallelism=1))
        all_logins = build_logins(settings, connections, client, linking, hashes)
        app = FastAPI()
        install_error_handlers(app)
        auth = Authenticator(feed, register, tokens.usage, linking.claim, AuthConfig())
        add_login_routes(app, Web(all_logins), auth)
        doorway = LoginHarness(app, all_logins, log, clock)
        doorway.pool = connections
        try:
            yield doorway
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)


async def begin_device_login(program: httpx.AsyncClient, **fields: str) -> dict[str, str]:
    """Start a device login."""
    answer = await program.post("/v1/auth/device", data={"client_id": "laptop"} | fields)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


@asynccontextmanager
async def open_site_without_ranker(logins: Logins) -> AsyncIterator[httpx.AsyncClient]:
    """A browser on the public pages of an ingest whose ranker is down."""
    app, people, log = FastAPI(), logins.people, MemoryLog()
    async with ranker_http.open_client("http://127.0.0.1:1", "a-key-of-the-readers") as client:
        ranker, dead_letters = RankerClient(client), MemoryDeadLetters(log, MemoryBus(log))
        ports = Ports(log, MemoryBlobStore(), people.store, ranker, dead_letters)
        add_public_pages(app, Web(logins), ranker, ingest(ports, people.feed))
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url=BASE) as browser:
            yield browser
