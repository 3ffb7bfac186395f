"""The adapter to discord.py: its URL, backoff, retries and circuit breaker, and the bot's messages.

A message has an embed, files and emojis.
"""

import io
import logging
import re
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import Any, Literal

import aiohttp
import discord
import yarl
from discord.backoff import ExponentialBackoff
from discord.http import Route
from discord.webhook.async_ import AsyncWebhookAdapter, async_context

from discord_edge.wording import Card
from harness.gpus import find_gpu_spec, is_amd
from shared.errors import Failed, Refused

# Discord bans an address after 10 000 of these in ten minutes.
INVALID = frozenset({401, 403, 429})
WINDOW_S = 600.0
ROUTE_MAX, ALL_MAX = 100, 2000
# Answers to interactions are never stopped: users must be told about the trouble.
FREE = "POST /interactions"
_ID = re.compile(r"\d{15,}")
_SECRET_LENGTH_MIN = 40
# By default, discord.py waits up to a quarter of an hour after an outage of that length.
RECONNECT_S_MAX = 30.0
# The path of the first answer to an interaction, and Discord's error code for a second one.
CALLBACK, ANSWERED = "/callback", 40060

_log = logging.getLogger(__name__)


def route_key(method: str, path: str) -> str:
    """Return the key under which a request is counted: method, path and its first id.

    >>> route_key("PATCH", "/api/v10/channels/123456789012345678/messages/223456789012345678")
    'PATCH /channels/123456789012345678/messages/*'
    >>> route_key("POST", "/api/v10/webhooks/123456789012345678/" + "a" * 60)
    'POST /webhooks/123456789012345678/*'
    """
    parts, ids_count = [], 0
    for part in re.sub(r"^/api/v\d+", "", path).split("/"):
        is_id = bool(_ID.fullmatch(part))
        ids_count += is_id
        is_hidden = (is_id and ids_count > 1) or len(part) >= _SECRET_LENGTH_MIN
        parts.append("*" if is_hidden else part)
    return f"{method} {'/'.join(parts)}"


class CircuitBreaker:
    """Counts refusals per route over the last ten minutes; times are seconds of one clock."""

    def __init__(self) -> None:
        self._refusals: deque[tuple[float, str]] = deque()
        self._counts: Counter[str] = Counter()

    def record(self, route: str, status: int, at: float) -> bool:
        """Count a response. Returns whether this response opened the circuit for its route."""
        if status not in INVALID:
            return False
        was_open = self.is_open(route, at)
        self._refusals.append((at, route))
        self._counts[route] += 1
        return self.is_open(route, at) and not was_open

    def is_open(self, route: str, at: float) -> bool:
        """Whether requests to a route must not be sent for now."""
        while self._refusals and at - self._refusals[0][0] > WINDOW_S:
            _, old_route = self._refusals.popleft()
            self._counts[old_route] -= 1
            if not self._counts[old_route]:
                del self._counts[old_route]
        if route.startswith(FREE):
            return False
        return len(self._refusals) >= ALL_MAX or self._counts[route] >= ROUTE_MAX


class CircuitOpenError(aiohttp.ClientError):
    """A request was not sent because Discord refused too many of its kind."""


class CappedBackoff(ExponentialBackoff[Literal[False]]):
    """Growing pauses between attempts to reconnect, with an upper limit."""

    def delay(self) -> float:
        """Return the length of the next pause."""
        return min(super().delay(), RECONNECT_S_MAX)


def cap_reconnect_backoff() -> None:
    """Make discord.py try to reconnect at least every half minute."""
    vars(discord.client)["ExponentialBackoff"] = CappedBackoff


def use_discord_url(url: str) -> None:
    """Make discord.py use another Discord than the public one."""
    discord.http.Route.BASE = f"{url.rstrip('/')}/api/v10"
    gateway = yarl.URL(url.replace("http", "ws", 1).rstrip("/") + "/")
    discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY = gateway


class RetryingWebhookAdapter(AsyncWebhookAdapter):
    """Repeats a request once if its answer is lost, so that users are not left waiting."""

    async def request(self, route: Route, session: aiohttp.ClientSession, **options: Any) -> Any:
        """Send a request; new messages are not repeated, because they might appear twice."""
        is_first_answer = route.path.endswith(CALLBACK)
        try:
            return await super().request(route, session, **options)
        except (aiohttp.ClientError, OSError):
            if route.method == "POST" and not is_first_answer:
                raise
        for file in options.get("files") or ():
            file.reset(seek=True)
        try:
            return await super().request(route, session, **options)
        except discord.HTTPException as error:
            if not is_first_answer or error.code != ANSWERED:
                raise
            # The first request had arrived.
            return {"interaction": {"id": str(route.webhook_id), "type": 0}}


def retry_lost_answers() -> None:
    """Make answers to interactions survive a connection that is cut once."""
    async_context.set(RetryingWebhookAdapter())  # type: ignore[no-untyped-call]  # the library's


def trace_with_breaker(
    breaker: CircuitBreaker, trace: aiohttp.TraceConfig | None = None
) -> aiohttp.TraceConfig:
    """Check every request of discord.py against the circuit breaker, and record its response."""

    async def before_request(
        _session: aiohttp.ClientSession,
        context: SimpleNamespace,
        params: aiohttp.TraceRequestStartParams,
    ) -> None:
        context.route = route_key(params.method, params.url.path)
        if breaker.is_open(context.route, time.monotonic()):
            reason = f"{context.route} was refused too often: sent again within ten minutes"
            raise CircuitOpenError(reason)

    async def after_response(
        _session: aiohttp.ClientSession,
        context: SimpleNamespace,
        params: aiohttp.TraceRequestEndParams,
    ) -> None:
        if breaker.record(context.route, params.response.status, time.monotonic()):
            _log.error(
                "%s is not requested for now because Discord refused it too often; check the "
                "bot's permissions (docs/discord.md)",
                context.route,
            )

    config = trace or aiohttp.TraceConfig()
    config.on_request_start.append(before_request)
    config.on_request_end.append(after_response)
    return config


# Discord's limit for the text of an embed.
BODY_MAX = 4096
# The names that an operator gives the application's emojis, and the symbols that they replace.
STATES = {"✅": "wb_passed", "❌": "wb_failed", "⏳": "wb_running"}
CPU, AMD, NVIDIA = "wb_cpu", "wb_amd", "wb_nvidia"
NAMES = frozenset((*STATES.values(), CPU, AMD, NVIDIA))
# Discord shows code as it is written, so an emoji there would appear as its id.
_CODE = re.compile(r"(```.*?```|`[^`\n]*`)", re.DOTALL)
# The number of messages to search for one that a killed process may have sent.
SEARCHED_MAX = 50
NAME_LENGTH_MAX = 100


@contextmanager
def translate_discord_errors() -> Iterator[None]:
    """Raise `Refused` or `Failed` in place of discord.py's errors."""
    try:
        yield
    except discord.HTTPException as error:
        # An operator replaces a revoked token (401), so retrying makes sense.
        if 400 <= error.status < 500 and error.status not in (401, 429):
            raise Refused("discord_refused", f"Discord says {error.code}: {error.text}") from error
        raise Failed(f"Discord answered {error.status}") from error
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise Failed(f"Discord does not answer: {type(error).__name__}") from error


def build_embed(card: Card) -> discord.Embed:
    """Build the embed of a card."""
    embed = discord.Embed(
        title=card.title[:250], description=card.body[:BODY_MAX], colour=card.colour
    )
    if card.at is not None:
        embed.timestamp = datetime.fromtimestamp(card.at, UTC)
    return embed.set_footer(text=card.footer) if card.footer else embed


def build_files(card: Card) -> list[discord.File]:
    """Build the files of a card that have data."""
    files = [(file.name, file.data) for file in card.files if file.data is not None]
    return [discord.File(io.BytesIO(data), name) for name, data in files]


def discord_file(name: str, data: bytes) -> discord.File:
    """Return a file under the last part of its name: Discord has no folders."""
    return discord.File(io.BytesIO(data), PurePosixPath(name).name[:NAME_LENGTH_MAX] or "file.txt")


def insert_emojis(text: str, emojis: Mapping[str, str], length_max: int) -> str:
    """Replace symbols with emojis, given by name; a text that grows too long stays unchanged.

    >>> insert_emojis("✅ passed `✅`", {"wb_passed": "<:wb_passed:7>"}, 100)
    '<:wb_passed:7> passed `✅`'
    >>> insert_emojis("✅ passed", {"wb_passed": "<:wb_passed:7>"}, 20)
    '✅ passed'
    """
    parts = _CODE.split(text)
    for symbol, name in STATES.items():
        if name in emojis:
            # Every second part is code.
            parts[::2] = [part.replace(symbol, emojis[name]) for part in parts[::2]]
    replaced = "".join(parts)
    return replaced if len(replaced) <= length_max else text


def vendor_emoji(gpu: str) -> str | None:
    """Return the name of the emoji for a GPU type; None for an unknown type.

    >>> vendor_emoji("CPU"), vendor_emoji("MI300X"), vendor_emoji("H100"), vendor_emoji("mixed")
    ('wb_cpu', 'wb_amd', 'wb_nvidia', None)
    """
    if gpu == "CPU":
        return CPU
    if is_amd(gpu):
        return AMD
    return NVIDIA if find_gpu_spec(gpu) is not None else None


class ApplicationEmojis:
    """The application's emojis as of the start; without them common symbols are used."""

    def __init__(self) -> None:
        self._emojis: Mapping[str, discord.Emoji] = {}

    async def load(self, client: discord.Client) -> None:
        """Read the application's emojis; a failure is harmless."""
        try:
            with translate_discord_errors():
                application_emojis = await client.fetch_application_emojis()
        except (Failed, Refused) as error:
            _log.info("the application's own emojis are not used: %s", error)
            return
        self._emojis = {emoji.name: emoji for emoji in application_emojis if emoji.name in NAMES}

    def insert(self, text: str, length_max: int = 2000) -> str:
        """Replace symbols with emojis in a text."""
        names = {name: str(emoji) for name, emoji in self._emojis.items()}
        return insert_emojis(text, names, length_max)

    def vendor_emoji(self, gpu: str) -> discord.Emoji | None:
        """Return the emoji for the vendor of a GPU type, if there is one."""
        return self._emojis.get(vendor_emoji(gpu) or "")


def is_own(client: discord.Client, author: int | None) -> bool:
    """Whether the author is the bot, whose id may differ from its application's."""
    return client.user is not None and client.user.id == author


@asynccontextmanager
async def connected(client: discord.Client) -> AsyncIterator[None]:
    """Wait until the client is ready; then raise `Refused` or `Failed` for discord.py's errors."""
    await client.wait_until_ready()
    with translate_discord_errors():
        yield


async def open_direct_channel(client: discord.Client, user_id: str) -> str:
    """Return the channel of the direct messages with a user. Raises `Refused` and `Failed`."""
    async with connected(client):
        user = await client.fetch_user(int(user_id))
        return str((await user.create_dm()).id)


async def find_own_message(
    client: discord.Client,
    room: str,
    matches: Callable[[discord.Message], bool],
    after: discord.Object | None = None,
) -> str | None:
    """Return the id of the bot's own recent message that matches. Raises discord.py's errors."""
    channel = client.get_partial_messageable(int(room))
    async for message in channel.history(limit=SEARCHED_MAX, after=after):
        if is_own(client, message.author.id) and matches(message):
            return str(message.id)
    return None
