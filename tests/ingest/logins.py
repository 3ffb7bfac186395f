"""The ways in as a browser and a program see them, over a log in memory and a real Postgres."""

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

from ingest.http.who import Gate, Keys
from ingest.login.argon import Hasher
from ingest.login.http import login
from ingest.login.service import Logins
from ingest.login.wiring import Behind, logins, waiting
from ingest.postgres import PostgresPeople
from ingest.service.decisions import Decisions
from ingest.service.gate import AccessFeed
from ingest.service.linking import Linking
from ingest.service.people import People
from ingest.service.tokens import NewToken, Tokens
from ingest.settings import Settings
from shared.clock import now
from shared.http import install
from shared.memory import MemoryLog
from shared.postgres import pool
from shared.settings import Listen
from shared.testing import eventually

NOWHERE = Listen("127.0.0.1", 1)
BASE = "http://127.0.0.1:8000"
PASSWORD = "correct horse battery"
SETTINGS = Settings(
    nats_url="",
    postgres_dsn="",
    listen=NOWHERE,
    ops_listen=NOWHERE,
    ranker_url="",
    reader_key="",
    public_url=BASE,
    web_signup=True,
)
CSRF = re.compile(r'name="csrf" value="([0-9a-f]{64})"')


class Time:
    """A clock that a test puts forward."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def __call__(self) -> datetime:
        """This instant, as far ahead as was said."""
        return now() + self.ahead

    def pass_(self, **amount: float) -> None:
        """Let time pass: `minutes=10`."""
        self.ahead += timedelta(**amount)


class Doorway:
    """Everything a test asks of the ways in; each `browser` has cookies of its own."""

    def __init__(self, app: FastAPI, all_ways: Logins, log: MemoryLog, clock: Time) -> None:
        self.app = app
        self.logins = all_ways
        self.log = log
        self.clock = clock
        self.pool: AsyncConnectionPool | None = None

    def browser(self, address: str = "203.0.113.9") -> httpx.AsyncClient:
        """Somebody at an address, who follows no redirect."""
        transport = httpx.ASGITransport(self.app, client=(address, 1))
        return httpx.AsyncClient(transport=transport, base_url=BASE)

    async def token(
        self, name: str, *scopes: str, problems: tuple[str, ...] = ()
    ) -> dict[str, str]:
        """The header of a participant's token with these scopes."""
        account, _ = await self.logins.people.open(name, "test", "")
        new = NewToken("api", "test", scopes or ("account", "submit"), None, problems)
        issued = await self.logins.tokens.issue(account, new, f"account:{account}")
        return {"Authorization": f"Bearer {issued.secret}"}

    def said(self, kind: str) -> list[object]:
        """The events of a kind that are in the log."""
        return [one.fact for one in self.log.since(0) if type(one.fact).__name__ == kind]


async def csrf(browser: httpx.AsyncClient, path: str) -> str:
    """What a page's form must send back."""
    page = await browser.get(path)
    found = CSRF.search(page.text)
    assert found, f"{path} answers {page.status_code} without a form: {page.text[:500]}"
    return found[1]


async def send(
    browser: httpx.AsyncClient, page: str, action: str, **fields: str | list[str]
) -> httpx.Response:
    """Fill in the form of a page and send it."""
    token = await csrf(browser, page)
    return await browser.post(action, data={"csrf": token} | fields)


async def registered(browser: httpx.AsyncClient, name: str = "ada") -> httpx.AsyncClient:
    """The browser, logged in as a new participant."""
    answer = await send(browser, "/register", "/register", name=name, password=PASSWORD)
    assert answer.status_code == 303, answer.text
    return browser


@asynccontextmanager
async def opened(dsn: str, settings: Settings = SETTINGS) -> AsyncIterator[Doorway]:
    """The ways in that these settings allow, with nobody known yet."""
    log, clock = MemoryLog(), Time()
    async with pool(dsn, 1, 4) as connections, httpx.AsyncClient() as client:
        decisions, register = Decisions(log, clock), PostgresPeople(connections)
        feed = AccessFeed(log, clock)
        following = asyncio.create_task(feed.run())
        await eventually(lambda: not feed.ill())
        people, tokens = People(decisions, feed, register), Tokens(decisions, feed, register)
        linking = Linking(people, tokens, waits=waiting(connections, clock))
        hashes = Hasher(PasswordHasher(time_cost=1, memory_cost=64, parallelism=1))
        behind = Behind(connections, client, people, tokens, linking, hashes, clock)
        found = logins(replace(settings, postgres_dsn=dsn), behind)
        app = FastAPI()
        install(app)
        login(app, found, Gate(feed, people, tokens, linking, Keys()))
        doorway = Doorway(app, found, log, clock)
        doorway.pool = connections
        try:
            yield doorway
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)


async def begun(program: httpx.AsyncClient, **fields: str) -> dict[str, str]:
    """A device that waits."""
    answer = await program.post("/v1/auth/device", data={"client_id": "laptop"} | fields)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())
