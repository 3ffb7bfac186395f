"""Builds the logins from the settings, adds their routes, and deletes expired ones."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime

import httpx
from fastapi import APIRouter, FastAPI
from psycopg_pool import AsyncConnectionPool

from ingest.access.feed import hash_secret
from ingest.accounts.service import Accounts, CliIdLinking
from ingest.http.auth import Authenticator
from ingest.http.middleware import AttemptLimiter
from ingest.login import oauth_http, pages
from ingest.login.api import login_router
from ingest.login.oauth_http import OAuthProvider
from ingest.login.postgres import LoginStore
from ingest.login.rules import CLI_ID, CliLogin
from ingest.login.secrets import Argon2Hasher
from ingest.login.service import CliIds, Devices, Logins, Sessions
from ingest.login.sign_in import OAuthLogins, PasswordResets, SignIn
from ingest.login.web import Web, route_class
from ingest.settings import Settings
from shared.clock import now
from shared.errors import Failed

PURGE_EVERY_S = 60.0

_log = logging.getLogger(__name__)


def pending_cli_ids(
    pool: AsyncConnectionPool, clock: Callable[[], datetime] = now
) -> Callable[[str], Awaitable[bool]]:
    """Return the check for CLI ids that were issued and wait to be linked."""
    store = LoginStore(pool)

    async def is_pending(cli_id: str) -> bool:
        if not CLI_ID.match(cli_id):
            return False
        login = await store.find(CliLogin, "cli_login_of", cli=hash_secret(cli_id))
        return login is not None and login.account is None and clock() < login.expires_at

    return is_pending


def build_logins(
    settings: Settings,
    pool: AsyncConnectionPool,
    client: httpx.AsyncClient,
    linking: CliIdLinking,
    hashes: Argon2Hasher,
) -> Logins:
    """Build all logins that the settings allow."""
    people, tokens, store = linking.people, linking.tokens, LoginStore(pool)
    sign_in = build_sign_in(settings, pool, people, hashes)
    endpoints = {
        "github": oauth_http.github(settings.github_url, settings.github_api_url),
        "discord": oauth_http.discord(settings.discord_url),
    }
    applications = {
        "github": ("GitHub", settings.github_client_id, settings.github_client_secret),
        "discord": ("Discord", settings.discord_client_id, settings.discord_client_secret),
    }
    providers = {
        name: OAuthProvider(title, endpoints[name], client_id, client, secret)
        for name, (title, client_id, secret) in applications.items()
        if client_id
    }
    return Logins(
        public_url=settings.public_base,
        cli_ids=CliIds(store, linking),
        devices=Devices(
            store, tokens, AttemptLimiter(settings.user_codes_per_participant, "codes entered")
        ),
        sessions=Sessions(tokens, people),
        sign_in=sign_in,
        oauth=OAuthLogins(providers, store, sign_in, settings.public_base),
        resets=PasswordResets(store, sign_in, tokens, settings.public_base),
        tokens=tokens,
        people=people,
        cli_id_attempts=AttemptLimiter(
            settings.cli_ids_per_address, "CLI ids for your network address"
        ),
        login_attempts=AttemptLimiter(
            settings.logins_per_address, "logins started from your network address"
        ),
    )


def build_sign_in(
    settings: Settings, pool: AsyncConnectionPool, people: Accounts, hashes: Argon2Hasher
) -> SignIn:
    """Build the sign-in with the limits of the settings."""
    return SignIn(
        people,
        LoginStore(pool),
        hashes,
        per_address=AttemptLimiter(
            settings.passwords_per_address, "passwords tried from your network address"
        ),
        per_name=AttemptLimiter(settings.passwords_per_name, "passwords tried for this name"),
        signups=AttemptLimiter(
            settings.signups_per_address, "new accounts from your network address"
        ),
        is_signup_on=settings.web_signup,
    )


async def purge_expired(
    pool: AsyncConnectionPool, *other_purges: Callable[[datetime], Awaitable[object]]
) -> None:
    """Delete expired logins once a minute, and run the other purges; never returns."""
    while True:
        try:
            for purge in (LoginStore(pool).purge, *other_purges):
                await purge(now())
        except Failed as failed:
            _log.warning("cannot delete expired logins, trying again later: %s", failed)
        await asyncio.sleep(PURGE_EVERY_S)


def add_login_routes(app: FastAPI, web: Web, auth: Authenticator) -> None:
    """Add all login routes to the application."""
    app.include_router(login_router(web.logins, auth))
    router = APIRouter(route_class=route_class(web), include_in_schema=False)
    pages.add_sign_in_pages(router, web)
    pages.add_reset_pages(router, web)
    pages.add_device_pages(router, web)
    pages.add_link_pages(router, web)
    pages.add_account_pages(router, web)
    pages.add_client_pages(router, web)
    app.include_router(router)
