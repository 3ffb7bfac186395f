"""Builds the logins from the settings, adds their routes, and deletes expired ones."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import NamedTuple

import httpx
from fastapi import APIRouter, FastAPI, Response
from fastapi.responses import PlainTextResponse
from psycopg_pool import AsyncConnectionPool

from ingest.access.feed import hash_secret
from ingest.accounts.service import Accounts
from ingest.accounts.tokens import CliIdLinking, Tokens
from ingest.attempt_limiter import AttemptLimiter
from ingest.http.auth import Authenticator
from ingest.login import oauth_http
from ingest.login.api import login_router
from ingest.login.oauth_http import OAuthProvider
from ingest.login.pages import (
    add_account_pages,
    add_client_pages,
    add_device_pages,
    add_link_pages,
    add_sign_in_pages,
)
from ingest.login.postgres import (
    ExpiredLoginCleanup,
    PostgresCliLoginStore,
    PostgresDeviceLoginStore,
    PostgresLoginStateStore,
    PostgresPasswordStore,
)
from ingest.login.rules import CLI_ID
from ingest.login.secrets import Argon2Hasher
from ingest.login.service import CliIds, Devices, Logins, Sessions
from ingest.login.sign_in import OAuthLogins, SignIn, SignInLimits
from ingest.login.web import Web, route_class
from ingest.settings import Settings
from shared.clock import now
from shared.errors import Failed

PURGE_EVERY_S = 60.0
CLI_IDS_PER_ADDRESS = "10/minute"
# A class or a company may share one address; the secrets are long enough for this rate.
LOGINS_PER_ADDRESS = "60/minute"
CODE_ATTEMPTS = "30/hour"
SIGN_INS_PER_ADDRESS = "60/15 minutes"
SIGN_INS_PER_NAME = "20/hour"
SIGNUPS = "30/hour"

_log = logging.getLogger(__name__)

STYLE_S = 3600


class LoginDependencies(NamedTuple):
    """What the logins depend on."""

    pool: AsyncConnectionPool
    client: httpx.AsyncClient
    people: Accounts
    tokens: Tokens
    linking: CliIdLinking
    hashes: Argon2Hasher
    clock: Callable[[], datetime] = now


def pending_cli_ids(
    pool: AsyncConnectionPool, clock: Callable[[], datetime] = now
) -> Callable[[str], Awaitable[bool]]:
    """Return the check for CLI ids that were issued and wait to be linked."""
    logins = PostgresCliLoginStore(pool)

    async def is_pending(cli_id: str) -> bool:
        login = await logins.find(hash_secret(cli_id)) if CLI_ID.match(cli_id) else None
        return login is not None and login.account is None and clock() < login.expires_at

    return is_pending


def build_logins(settings: Settings, dependencies: LoginDependencies) -> Logins:
    """Build all logins that the settings allow."""
    pool, client, people, tokens, linking, hashes, clock = dependencies
    store = PostgresPasswordStore(pool)
    sign_in = SignIn(people, store, hashes, _limits(), clock, settings.web_signup)
    devices = PostgresDeviceLoginStore(pool)
    guesses = AttemptLimiter(CODE_ATTEMPTS, "code attempts")
    return Logins(
        public_url=settings.public_base,
        cli_ids=CliIds(PostgresCliLoginStore(pool), linking, tokens, clock),
        devices=Devices(devices, tokens, guesses, clock),
        sessions=Sessions(tokens, people, clock),
        sign_in=sign_in,
        oauth=OAuthLogins(
            _providers(settings, client),
            PostgresLoginStateStore(pool),
            sign_in,
            clock,
            settings.public_base,
        ),
        tokens=tokens,
        people=people,
        cli_id_attempts=AttemptLimiter(CLI_IDS_PER_ADDRESS, "CLI id requests"),
        login_attempts=AttemptLimiter(LOGINS_PER_ADDRESS, "login attempts"),
    )


def build_account_resolver(
    pool: AsyncConnectionPool, people: Accounts, clock: Callable[[], datetime] = now
) -> Callable[[str, str, str | None], Awaitable[str | None]]:
    """Return the function that resolves or opens accounts for another service."""
    return SignIn(
        people, PostgresPasswordStore(pool), Argon2Hasher(), _limits(), clock
    ).resolve_account


def _limits() -> SignInLimits:
    attempts = "tries to log in"
    return SignInLimits(
        per_address=AttemptLimiter(SIGN_INS_PER_ADDRESS, attempts),
        per_name=AttemptLimiter(SIGN_INS_PER_NAME, attempts),
        signups=AttemptLimiter(SIGNUPS, "new accounts from your network"),
    )


def _providers(settings: Settings, client: httpx.AsyncClient) -> dict[str, OAuthProvider]:
    """Return the providers where this platform has an application."""
    endpoints = {
        "github": oauth_http.github(settings.github_url, settings.github_api_url),
        "discord": oauth_http.discord(settings.discord_url),
    }
    applications = {
        "github": ("GitHub", settings.github_client_id, settings.github_client_secret),
        "discord": ("Discord", settings.discord_client_id, settings.discord_client_secret),
    }
    return {
        name: OAuthProvider(title, endpoints[name], client_id, client, secret)
        for name, (title, client_id, secret) in applications.items()
        if client_id
    }


async def purge_expired(
    pool: AsyncConnectionPool,
    *other_purges: Callable[[datetime], Awaitable[object]],
    clock: Callable[[], datetime] = now,
) -> None:
    """Delete expired logins once a minute, and run the other purges; never returns."""
    all_purges = (ExpiredLoginCleanup(pool).purge, *other_purges)
    while True:
        try:
            for purge in all_purges:
                await purge(clock())
        except Failed as failed:
            _log.warning("cannot delete expired logins, trying again later: %s", failed)
        await asyncio.sleep(PURGE_EVERY_S)


def add_login_routes(app: FastAPI, logins: Logins, auth: Authenticator) -> None:
    """Add all login routes to the application."""
    app.include_router(login_router(logins, auth))
    web = Web(logins)
    pages = APIRouter(route_class=route_class(web), include_in_schema=False)
    for add_routes in (
        add_sign_in_pages,
        add_device_pages,
        add_link_pages,
        add_account_pages,
        add_client_pages,
    ):
        add_routes(pages, web)

    @pages.get("/static/login.css")
    async def style() -> Response:
        """The style sheet of all pages."""
        headers = {"Cache-Control": f"public, max-age={STYLE_S}"}
        return PlainTextResponse(web.style, media_type="text/css", headers=headers)

    app.include_router(pages)
