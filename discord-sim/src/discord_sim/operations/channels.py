"""Channels that are no threads, and changing either."""

from discord_sim import shapes
from discord_sim.errors import ApiError
from discord_sim.gateway.intents import GUILDS
from discord_sim.operations import changes
from discord_sim.operations.operation import Answer, Request, operation
from discord_sim.parts import Parts
from discord_sim.permissions import BITS
from discord_sim.ratelimits import limited
from discord_sim.shapes import Json

# Discord names no number; this one was met (discord-api-docs, issue 1900).
RENAMES_MAX, RENAMES_S = 2, 600.0


@operation("GET", "/channels/{channel_id}")
async def get_channel(parts: Parts, request: Request) -> Answer:
    """A channel or thread."""
    channel = parts.guild.channel(request.path["channel_id"])
    parts.guild.need(channel["id"])
    return 200, channel


@operation("GET", "/guilds/{guild_id}/channels")
async def list_guild_channels(parts: Parts, _: Request) -> Answer:
    """The server's channels, without threads."""
    kinds = (*shapes.THREADS, shapes.DM)
    return 200, [one for one in parts.guild.channels.values() if one["type"] not in kinds]


@operation("POST", "/guilds/{guild_id}/channels")
async def create_guild_channel(parts: Parts, request: Request) -> Answer:
    """A new channel."""
    if not parts.guild.may(parts.guild.bot_id) & BITS["manage_channels"]:
        raise ApiError(403, 50013, "Missing Permissions")
    body: Json = request.body
    channel = parts.guild.add_channel(body["name"], body.get("type") or shapes.TEXT)
    changes.channel(parts, channel, body)
    await parts.gateway.emit("CHANNEL_CREATE", channel, GUILDS)
    return 201, channel


@operation("PATCH", "/channels/{channel_id}")
async def update_channel(parts: Parts, request: Request) -> Answer:
    """Change a channel or thread; archive, lock, tag or rename it."""
    channel = parts.guild.channel(request.path["channel_id"])
    body: Json = request.body
    if body.get("name") and body["name"] != channel["name"]:
        _rename(parts, channel["id"])
    if channel["type"] in shapes.THREADS:
        changes.thread(parts, channel, body)
        await parts.gateway.emit("THREAD_UPDATE", channel, GUILDS)
    else:
        parts.guild.need(channel["id"], "manage_channels")
        changes.channel(parts, channel, body)
        await parts.gateway.emit("CHANNEL_UPDATE", channel, GUILDS)
    return 200, channel


def _rename(parts: Parts, channel_id: str) -> None:
    now = parts.clock.now()
    renames = [at for at in parts.renames[channel_id] if now - at < RENAMES_S]
    if len(renames) >= RENAMES_MAX:
        raise limited(RENAMES_S - (now - renames[0]), scope="shared")
    parts.renames[channel_id] = [*renames, now]


@operation("DELETE", "/channels/{channel_id}")
async def delete_channel(parts: Parts, request: Request) -> Answer:
    """A channel or thread less."""
    channel = parts.guild.channel(request.path["channel_id"])
    is_thread = channel["type"] in shapes.THREADS
    parts.guild.need(channel["id"], "manage_threads" if is_thread else "manage_channels")
    await changes.delete(parts, channel)
    return 200, channel
