"""Builds the logins from settings, and keeps what waits too long from staying."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import NamedTuple

import httpx
from psycopg_pool import AsyncConnectionPool

from ingest.login import oauth_http
from ingest.login.argon import Hasher
from ingest.login.oauth_http import OAuthProvider
from ingest.login.ports import Hashes
from ingest.login.postgres import (
    PostgresCliLogins,
    PostgresDeviceLogins,
    PostgresLoginStates,
    PostgresPasswords,
    Purge,
)
from ingest.login.service import Logins
from ingest.login.service.arrivals import Arrivals, Limits
from ingest.login.service.cli_ids import CliIds, Waiting
from ingest.login.service.devices import Devices
from ingest.login.service.journeys import Journeys
from ingest.login.service.sessions import Sessions
from ingest.service.linking import Linking
from ingest.service.people import People
from ingest.service.tokens import Tokens
from ingest.service.tries import Tries
from ingest.settings import Settings
from shared.clock import now
from shared.errors import Failed

PURGE_EVERY_S = 60.0
CLI_IDS = "10/minute"
# A class or a company may come from one address: what is secret here is long.
BEGUN = "60/minute"
CODES_ENTERED = "30/hour"
TRIES_PER_ADDRESS = "60/15 minutes"
TRIES_PER_NAME = "20/hour"
SIGNUPS = "30/hour"

_log = logging.getLogger(__name__)


class Behind(NamedTuple):
    """What logins stand on."""

    pool: AsyncConnectionPool
    client: httpx.AsyncClient
    people: People
    tokens: Tokens
    linking: Linking
    hashes: Hashes
    clock: Callable[[], datetime] = now


def waiting(pool: AsyncConnectionPool, clock: Callable[[], datetime] = now) -> Waiting:
    """Which CLI ids wait for somebody to link them."""
    return Waiting(PostgresCliLogins(pool), clock)


def logins(settings: Settings, behind: Behind) -> Logins:
    """All ways in that the settings allow."""
    pool, people, tokens, clock = behind.pool, behind.people, behind.tokens, behind.clock
    limits = _limits()
    store = PostgresPasswords(pool)
    arrivals = Arrivals(people, store, behind.hashes, limits, clock, settings.web_signup)
    devices = PostgresDeviceLogins(pool)
    guesses = Tries(CODES_ENTERED, "codes entered")
    return Logins(
        public_url=settings.public_base,
        cli_ids=CliIds(PostgresCliLogins(pool), behind.linking, tokens, clock),
        devices=Devices(devices, tokens, guesses, clock),
        sessions=Sessions(tokens, people, clock),
        arrivals=arrivals,
        journeys=Journeys(
            _providers(settings, behind.client),
            PostgresLoginStates(pool),
            arrivals,
            clock,
            settings.public_base,
        ),
        tokens=tokens,
        people=people,
        asked=Tries(CLI_IDS, "CLI ids asked for"),
        begun=Tries(BEGUN, "logins begun"),
    )


def vouching(
    pool: AsyncConnectionPool, people: People, clock: Callable[[], datetime] = now
) -> Callable[[str, str, str | None], Awaitable[str | None]]:
    """Who comes in because another service of ours vouches for them."""
    return Arrivals(people, PostgresPasswords(pool), Hasher(), _limits(), clock).vouched


def _limits() -> Limits:
    tries = "tries to log in"
    return Limits(
        per_address=Tries(TRIES_PER_ADDRESS, tries),
        per_name=Tries(TRIES_PER_NAME, tries),
        signups=Tries(SIGNUPS, "new accounts from your network"),
    )


def _providers(settings: Settings, client: httpx.AsyncClient) -> dict[str, OAuthProvider]:
    """The providers where this platform has an application of its own."""
    doors = {
        "github": oauth_http.github(settings.github_url, settings.github_api_url),
        "discord": oauth_http.discord(settings.discord_url),
    }
    said = {
        "github": ("GitHub", settings.github_client_id, settings.github_client_secret),
        "discord": ("Discord", settings.discord_client_id, settings.discord_client_secret),
    }
    return {
        name: OAuthProvider(title, doors[name], client_id, client, secret)
        for name, (title, client_id, secret) in said.items()
        if client_id
    }


async def purging(
    pool: AsyncConnectionPool,
    *others: Callable[[datetime], Awaitable[object]],
    clock: Callable[[], datetime] = now,
) -> None:
    """Forget for ever, once a minute, the logins that nobody finished, and what others forget."""
    purges = (Purge(pool).purge, *others)
    while True:
        try:
            for purge in purges:
                await purge(clock())
        except Failed as failed:
            _log.warning("what is long past is forgotten later: %s", failed)
        await asyncio.sleep(PURGE_EVERY_S)
