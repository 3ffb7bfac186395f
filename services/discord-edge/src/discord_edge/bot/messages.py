"""The bot's messages on Discord: embeds, files, emojis, errors and history."""

import io
import logging
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import PurePosixPath

import aiohttp
import discord

from discord_edge.wording import Card
from shared.errors import Failed, Refused
from shared.gpus import find_gpu_spec, is_amd

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

_log = logging.getLogger(__name__)


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
