"""Messages on their way: what is in them, who is told, and who hears it."""

import re
from collections.abc import Mapping

from discord_sim import shapes
from discord_sim.cdn import Blob
from discord_sim.errors import ApiError, Problem, invalid, unknown
from discord_sim.gateway.intents import DIRECT_MESSAGES, GUILDS, MESSAGES
from discord_sim.judges.messages import check_message
from discord_sim.parts import Parts
from discord_sim.permissions import BITS
from discord_sim.shapes import EPHEMERAL, LOADING, SUPPRESS, Json

Files = Mapping[int, Blob]


def new(parts: Parts, channel_id: str, author: Json) -> Json:
    """A message in which nothing is yet."""
    return shapes.message(parts.ids.next(), channel_id, author, parts.clock.iso())


def fill(parts: Parts, message: Json, body: Json, files: Files) -> None:
    """Put into a new message what a bot says. Errors: ApiError."""
    flags = body.get("flags") or 0
    allowed = EPHEMERAL | SUPPRESS | shapes.SUPPRESS_NOTIFICATIONS | shapes.COMPONENTS_V2
    message["flags"] |= flags & allowed
    _write(parts, message, body, files)


def change(parts: Parts, message: Json, body: Json, files: Files) -> None:
    """Put into an old message what a bot says instead; all or nothing. Errors: ApiError."""
    draft = {**message, "flags": message["flags"] & ~LOADING}
    if body.get("flags") is not None:
        changeable = SUPPRESS | shapes.COMPONENTS_V2
        draft["flags"] = draft["flags"] & ~SUPPRESS | body["flags"] & changeable
    _write(parts, draft, body, files)
    if not message["flags"] & LOADING:
        draft["edited_timestamp"] = parts.clock.iso()
    message.update(draft)


def _write(parts: Parts, message: Json, body: Json, files: Files) -> None:
    if found := check_message(body, message["flags"], len(files)):
        raise invalid(found)
    if "content" in body:
        message["content"] = (body["content"] or "").strip()
    if "embeds" in body:
        message["embeds"] = [_embed(one) for one in body["embeds"] or []]
    if "components" in body:
        message["components"] = numbered(body["components"] or [])
    _attach(parts, message, body, files)
    _mention(parts, message, body.get("allowed_mentions"))
    if not any(message[key] for key in ("content", "embeds", "components", "attachments")):
        raise ApiError(400, 50006, "Cannot send an empty message")


def _attach(parts: Parts, message: Json, body: Json, files: Files) -> None:
    _check_sizes(parts, files)
    kept = {str(one["id"]): one for one in message["attachments"]}
    wanted = body.get("attachments")
    if wanted is not None:
        ids = [str(one["id"]) for one in wanted]
        lost = [one for one in ids if one not in kept and one not in map(str, files)]
        if lost:
            told = f"unknown attachment ids {lost}"
            raise invalid([Problem(("attachments",), told, "ATTACHMENT_NOT_FOUND")])
        kept = {one: said for one, said in kept.items() if one in ids}
    is_ephemeral = bool(message["flags"] & EPHEMERAL)
    stored = [
        parts.cdn.store(blob, message["channel_id"], is_ephemeral=is_ephemeral)
        for _, blob in sorted(files.items())
    ]
    message["attachments"] = [*kept.values(), *stored]


def _check_sizes(parts: Parts, files: Files) -> None:
    if any(len(one.data) > parts.files_max_bytes for one in files.values()):
        raise ApiError(413, 40005, "Request entity too large")


def _mention(parts: Parts, message: Json, allowed: Json | None) -> None:
    """Who is told of a message: those who are named in it, as far as it was allowed."""
    text = message["content"]
    parse = ["users", "roles", "everyone"] if allowed is None else allowed.get("parse") or []
    named = {key: set(map(str, (allowed or {}).get(key) or [])) for key in ("users", "roles")}

    def told(key: str, pattern: str, known: Mapping[str, Json]) -> list[str]:
        found = [one for one in re.findall(pattern, text) if one in known]
        return [one for one in dict.fromkeys(found) if key in parse or one in named[key]]

    guild = parts.guild
    users = told("users", r"<@!?(\d+)>", guild.users)
    message["mentions"] = [guild.users[one] for one in users]
    message["mention_roles"] = told("roles", r"<@&(\d+)>", guild.roles)
    may = guild.may(message["author"]["id"], message["channel_id"]) & BITS["mention_everyone"]
    is_all = "everyone" in parse and re.search("@(everyone|here)", text)
    message["mention_everyone"] = bool(may and is_all)


def _embed(said: Json) -> Json:
    return {key: value for key, value in {"type": "rich", **said}.items() if value is not None}


def numbered(components: list[Json]) -> list[Json]:
    """Components as answers have them: each with a number, and selects with their bounds."""
    numbers = iter(range(1, 1000))

    def one(said: Json) -> Json:
        found = {key: value for key, value in said.items() if value is not None}
        found["id"] = found.get("id") or next(numbers)
        found |= _drawn(found)
        if found.get("options"):
            found["options"] = [option | _drawn(option) for option in found["options"]]
        if found["type"] in (3, 5, 6, 7, 8):
            bounds = {"min_values": 1, "max_values": 1}
            found = {**bounds, **found}
        if "components" in found:
            found["components"] = [one(kid) for kid in found["components"]]
        if "accessory" in found:
            found["accessory"] = one(found["accessory"])
        return found

    return [one(said) for said in components]


def _drawn(said: Json) -> Json:
    """The emoji of a button or option, whose id an answer has as text."""
    if not said.get("emoji"):
        return {}
    given = {key: value for key, value in said["emoji"].items() if value is not None}
    return {"emoji": given | ({"id": str(given["id"])} if "id" in given else {})}


def find(parts: Parts, channel_id: str, message_id: str, *, by_token: bool = False) -> Json:
    """A message; an ephemeral one by its interaction's token alone. Errors: ApiError 10008."""
    found = parts.messages[channel_id].get(message_id)
    if found is None or (found["flags"] & EPHEMERAL and not by_token):
        raise unknown("Message", 10008)
    return found


async def post(parts: Parts, message: Json) -> None:
    """Let a new message appear."""
    channel = parts.guild.channel(message["channel_id"])
    parts.messages[channel["id"]][message["id"]] = message
    if message["flags"] & EPHEMERAL:
        return
    channel["last_message_id"] = message["id"]
    if channel["type"] in shapes.THREADS:
        channel["message_count"] += 1
        channel["total_message_sent"] += 1
    await _tell(parts, "MESSAGE_CREATE", message)


async def tell_changed(parts: Parts, message: Json) -> None:
    """A message is another now."""
    if not message["flags"] & EPHEMERAL:
        await _tell(parts, "MESSAGE_UPDATE", message)


async def remove(parts: Parts, message: Json) -> None:
    """A message is gone."""
    del parts.messages[message["channel_id"]][message["id"]]
    if message["flags"] & EPHEMERAL:
        return
    channel = parts.guild.channel(message["channel_id"])
    told = {"id": message["id"], "channel_id": message["channel_id"]}
    await parts.gateway.emit("MESSAGE_DELETE", told | _where(channel), _intent(channel))


async def _tell(parts: Parts, event: str, message: Json) -> None:
    channel = parts.guild.channel(message["channel_id"])
    told = {**message, **_where(channel), "channel_type": channel["type"]}
    author = parts.guild.members.get(message["author"]["id"])
    if author and channel["type"] != shapes.DM:
        told["member"] = {key: value for key, value in author.items() if key != "user"}
    await parts.gateway.emit(event, told, _intent(channel))


def _where(channel: Json) -> Json:
    return {"guild_id": channel["guild_id"]} if "guild_id" in channel else {}


def _intent(channel: Json) -> int:
    return DIRECT_MESSAGES if channel["type"] == shapes.DM else MESSAGES


async def tell_thread(parts: Parts, event: str, thread: Json) -> None:
    """A thread is new, or another, or gone."""
    if parts.guild.sees(parts.guild.bot_id, thread["id"]):
        await parts.gateway.emit(event, thread, GUILDS)
