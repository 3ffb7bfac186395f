"""Cards as Discord draws them, and Discord's refusals as ours."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import aiohttp
import discord

from discord_edge.domain.report import Card
from shared.errors import Failed, Refused

# What Discord takes of the text of an embed.
BODY_MAX = 4096


@contextmanager
def reaching() -> Iterator[None]:
    """Discord's refusals as ours."""
    try:
        yield
    except (discord.NotFound, discord.Forbidden) as error:
        raise Refused("discord_refused", f"Discord says {error.code}: {error.text}") from error
    except discord.HTTPException as error:
        # A token that was taken back is replaced by the operator; until then, nothing is over.
        if 400 <= error.status < 500 and error.status not in (401, 429):
            raise Refused("discord_refused", f"Discord says {error.code}: {error.text}") from error
        raise Failed(f"Discord answered {error.status}") from error
    except (aiohttp.ClientError, OSError, TimeoutError, discord.DiscordServerError) as error:
        raise Failed(f"Discord does not answer: {type(error).__name__}") from error


def embed(card: Card) -> discord.Embed:
    """A card as Discord draws it."""
    found = discord.Embed(
        title=card.title[:250], description=card.body[:BODY_MAX], colour=card.colour
    )
    if card.at is not None:
        found.timestamp = datetime.fromtimestamp(card.at, UTC)
    if card.footer:
        found.set_footer(text=card.footer)
    return found


def files(card: Card) -> list[discord.File]:
    """What is attached to a card."""
    given = ((one.name, one.data) for one in card.files if one.data is not None)
    return [discord.File(io.BytesIO(data), name) for name, data in given]
