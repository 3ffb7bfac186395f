"""What a change of a channel or thread does, whoever makes it."""

from discord_sim import shapes
from discord_sim.errors import ApiError
from discord_sim.gateway.intents import GUILDS
from discord_sim.parts import Parts
from discord_sim.shapes import Json

OF_CHANNEL = ("name", "topic", "position", "nsfw", "rate_limit_per_user", "default_forum_layout")
OF_THREAD = ("archived", "locked", "auto_archive_duration", "invitable")
FOR_MODERATORS = {"locked", "rate_limit_per_user"}
ARCHIVED = ApiError(400, 50083, "Thread is archived")


def channel(parts: Parts, found: Json, body: Json) -> None:
    """A channel as it is told to be."""
    found |= {key: body[key] for key in OF_CHANNEL if body.get(key) is not None}
    if "parent_id" in body:
        found["parent_id"] = str(body["parent_id"]) if body["parent_id"] else None
    if body.get("permission_overwrites") is not None:
        found["permission_overwrites"] = [
            {
                "id": str(one["id"]),
                "type": one.get("type") or 0,
                "allow": str(one.get("allow") or 0),
                "deny": str(one.get("deny") or 0),
            }
            for one in body["permission_overwrites"]
        ]
    if body.get("available_tags") is not None:
        found["available_tags"] = [_tag(parts, one) for one in body["available_tags"]]


def _tag(parts: Parts, said: Json) -> Json:
    return {
        "id": str(said.get("id") or parts.ids.next()),
        "name": said["name"],
        "moderated": bool(said.get("moderated")),
        "emoji_id": said.get("emoji_id"),
        "emoji_name": said.get("emoji_name"),
    }


def thread(parts: Parts, found: Json, body: Json) -> None:
    """A thread as it is told to be. Errors: ApiError 50013 and 50083."""
    is_restricted = FOR_MODERATORS & set(body) or found["owner_id"] != parts.guild.bot_id
    parts.guild.need(found["id"], *(["manage_threads"] if is_restricted else []))
    state = found["thread_metadata"]
    if state["archived"] and body.get("archived") is not False:
        raise ARCHIVED
    state |= {key: body[key] for key in OF_THREAD if body.get(key) is not None}
    if body.get("archived") is not None:
        state["archive_timestamp"] = parts.clock.iso()
    if body.get("applied_tags") is not None:
        found["applied_tags"] = [str(one) for one in body["applied_tags"]]
    found |= {key: body[key] for key in ("name", "flags") if body.get(key) is not None}


async def delete(parts: Parts, found: Json) -> None:
    """A channel goes, with all threads in it."""
    is_thread = found["type"] in shapes.THREADS
    guild = parts.guild
    for one in [one for one in guild.channels.values() if one.get("parent_id") == found["id"]]:
        if one["type"] in shapes.THREADS:
            await delete(parts, one)
    del guild.channels[found["id"]]
    parts.messages.pop(found["id"], None)
    told = found
    if is_thread:
        told = {key: found[key] for key in ("id", "guild_id", "parent_id", "type")}
    await parts.gateway.emit("THREAD_DELETE" if is_thread else "CHANNEL_DELETE", told, GUILDS)
