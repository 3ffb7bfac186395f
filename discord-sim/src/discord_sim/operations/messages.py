"""Messages in channels, threads and direct messages."""

from discord_sim import effects, shapes
from discord_sim.errors import ApiError, Problem, invalid
from discord_sim.operations.changes import ARCHIVED
from discord_sim.operations.operation import Answer, Request, operation
from discord_sim.parts import Parts
from discord_sim.permissions import BITS
from discord_sim.shapes import Json

IN_CHANNEL = "/channels/{channel_id}/messages"
ONE = f"{IN_CHANNEL}/{{message_id}}"
WRITABLE = (shapes.TEXT, shapes.DM, *shapes.THREADS)
REPLY = 19
PAGE = 50


@operation("POST", IN_CHANNEL)
async def create_message(parts: Parts, request: Request) -> Answer:
    """A new message of the bot."""
    channel, body = parts.guild.channel(request.path["channel_id"]), request.body
    await _may_write(parts, channel, request)
    if (again := _same(parts, body)) is not None:
        return 200, again
    message = effects.new(parts, channel["id"], parts.guild.bot)
    _refer(parts, message, body)
    effects.fill(parts, message, body, request.files)
    if body.get("nonce") is not None:
        message["nonce"] = body["nonce"]
        parts.nonces[str(body["nonce"])] = parts.clock.now(), message
    await effects.post(parts, message)
    return 200, message


async def _may_write(parts: Parts, channel: Json, request: Request) -> None:
    if channel["type"] not in WRITABLE:
        raise ApiError(400, 50008, "Cannot send messages in a non-text channel")
    if channel["type"] == shapes.DM:
        if channel["recipients"][0]["id"] in parts.closed_doors:
            raise ApiError(403, 50007, "Cannot send messages to this user")
        return
    is_thread = channel["type"] in shapes.THREADS
    needed = ["send_messages_in_threads" if is_thread else "send_messages"]
    needed += ["attach_files"] if request.files else []
    needed += ["embed_links"] if request.body.get("embeds") else []
    parts.guild.need(channel["id"], *needed)
    if is_thread and channel["thread_metadata"]["archived"]:
        if channel["thread_metadata"]["locked"]:
            raise ARCHIVED
        channel["thread_metadata"]["archived"] = False
        await effects.tell_thread(parts, "THREAD_UPDATE", channel)


def _same(parts: Parts, body: Json) -> Json | None:
    """The message that was sent with this nonce just now, if that is to be found."""
    at, message = parts.nonces.get(str(body.get("nonce")), (0.0, {}))
    is_recent = parts.clock.now() - at < parts.nonce_s
    return message if body.get("enforce_nonce") and is_recent else None


def _refer(parts: Parts, message: Json, body: Json) -> None:
    reference = body.get("message_reference") or {}
    if not reference.get("message_id"):
        return
    target = parts.messages[message["channel_id"]].get(str(reference["message_id"]))
    if target is None:
        raise invalid(
            [Problem(("message_reference",), "Unknown message", "REPLIES_UNKNOWN_MESSAGE")]
        )
    message |= {"type": REPLY, "referenced_message": target}
    message["message_reference"] = {
        "type": 0,
        "channel_id": message["channel_id"],
        "message_id": target["id"],
        "guild_id": parts.guild.id,
    }


@operation("GET", IN_CHANNEL)
async def list_messages(parts: Parts, request: Request) -> Answer:
    """The newest messages of a channel; those of interactions' tokens alone are left out."""
    channel = parts.guild.channel(request.path["channel_id"])
    parts.guild.need(channel["id"])
    if not parts.guild.may(parts.guild.bot_id, channel["id"]) & BITS["read_message_history"]:
        # Discord says nothing then, not no.
        return 200, []
    everything = list(parts.messages[channel["id"]].values())[::-1]
    after, before = (int(request.query.get(key, 0)) for key in ("after", "before"))
    found = [
        one
        for one in everything
        if not one["flags"] & shapes.EPHEMERAL
        and int(one["id"]) > after
        and (not before or int(one["id"]) < before)
    ]
    # After a message come the oldest ones first, and are listed newest first all the same.
    most = int(request.query.get("limit", PAGE))
    return 200, found[-most:] if "after" in request.query else found[:most]


@operation("GET", ONE)
async def get_message(parts: Parts, request: Request) -> Answer:
    """One message."""
    channel = parts.guild.channel(request.path["channel_id"])
    parts.guild.need(channel["id"], "read_message_history")
    return 200, effects.find(parts, channel["id"], request.path["message_id"])


@operation("PATCH", ONE)
async def update_message(parts: Parts, request: Request) -> Answer:
    """Change one of the bot's own messages."""
    channel = parts.guild.channel(request.path["channel_id"])
    parts.guild.need(channel["id"])
    message = effects.find(parts, channel["id"], request.path["message_id"])
    if message["author"]["id"] != parts.guild.bot_id:
        raise ApiError(403, 50005, "Cannot edit a message authored by another user")
    if channel["type"] in shapes.THREADS and channel["thread_metadata"]["archived"]:
        raise ARCHIVED
    effects.change(parts, message, request.body, request.files)
    await effects.tell_changed(parts, message)
    return 200, message


@operation("DELETE", ONE)
async def delete_message(parts: Parts, request: Request) -> Answer:
    """A message less."""
    channel = parts.guild.channel(request.path["channel_id"])
    message = effects.find(parts, channel["id"], request.path["message_id"])
    is_own = message["author"]["id"] == parts.guild.bot_id
    parts.guild.need(channel["id"], *([] if is_own else ["manage_messages"]))
    await effects.remove(parts, message)
    return 204, None


@operation("PUT", "/channels/{channel_id}/messages/pins/{message_id}")
async def create_pin(parts: Parts, request: Request) -> Answer:
    """Pin a message."""
    return await _pin(parts, request, is_pinned=True)


@operation("DELETE", "/channels/{channel_id}/messages/pins/{message_id}")
async def delete_pin(parts: Parts, request: Request) -> Answer:
    """Unpin a message."""
    return await _pin(parts, request, is_pinned=False)


async def _pin(parts: Parts, request: Request, *, is_pinned: bool) -> Answer:
    channel = parts.guild.channel(request.path["channel_id"])
    parts.guild.need(channel["id"], "manage_messages")
    message = effects.find(parts, channel["id"], request.path["message_id"])
    message["pinned"] = is_pinned
    await effects.tell_changed(parts, message)
    return 204, None


@operation("POST", "/channels/{channel_id}/typing")
async def trigger_typing_indicator(parts: Parts, request: Request) -> Answer:
    """Look busy."""
    parts.guild.need(parts.guild.channel(request.path["channel_id"])["id"], "send_messages")
    return 204, None
