"""Messages in channels, threads and direct messages, and the gateway events about them."""

import re
from collections.abc import Mapping

from discord_sim import shapes
from discord_sim.cdn import FileUpload
from discord_sim.gateway import DIRECT_MESSAGES, GUILDS, MESSAGES
from discord_sim.guild import BITS
from discord_sim.rules import check_message
from discord_sim.shapes import (
    EPHEMERAL,
    LOADING,
    SUPPRESS,
    ApiError,
    Json,
    Problem,
    invalid_body,
    thread_archived,
    unknown_object,
)
from discord_sim.state import Answer, Operations, Request, SimulatorState

Files = Mapping[int, FileUpload]
IN_CHANNEL = "/channels/{channel_id}/messages"
MESSAGE = f"{IN_CHANNEL}/{{message_id}}"
PIN = f"{IN_CHANNEL}/pins/{{message_id}}"
WRITABLE = (shapes.TEXT, shapes.DM, *shapes.THREADS)
REPLY = 19
PAGE = 50
OPERATIONS = Operations()


def new_message(state: SimulatorState, channel_id: str, author: Json) -> Json:
    """Return an empty message."""
    return shapes.message(state.ids.next(), channel_id, author, state.clock.iso())


def fill_message(state: SimulatorState, message: Json, body: Json, files: Files) -> None:
    """Set the content of a new message. Raises `ApiError`."""
    flags = body.get("flags") or 0
    allowed = EPHEMERAL | SUPPRESS | shapes.SUPPRESS_NOTIFICATIONS | shapes.COMPONENTS_V2
    message["flags"] |= flags & allowed
    _set_content(state, message, body, files)


def change_message(state: SimulatorState, message: Json, body: Json, files: Files) -> None:
    """Change the content of a message, completely or not at all. Raises `ApiError`."""
    draft = {**message, "flags": message["flags"] & ~LOADING}
    if body.get("flags") is not None:
        changeable = SUPPRESS | shapes.COMPONENTS_V2
        draft["flags"] = draft["flags"] & ~SUPPRESS | body["flags"] & changeable
    _set_content(state, draft, body, files)
    if not message["flags"] & LOADING:
        draft["edited_timestamp"] = state.clock.iso()
    message.update(draft)


def _set_content(state: SimulatorState, message: Json, body: Json, files: Files) -> None:
    if problems := check_message(body, message["flags"], len(files)):
        raise invalid_body(problems)
    if "content" in body:
        message["content"] = (body["content"] or "").strip()
    if "embeds" in body:
        embeds = body["embeds"] or []
        message["embeds"] = [_without_none({"type": "rich", **embed}) for embed in embeds]
    if "components" in body:
        message["components"] = number_components(body["components"] or [])
    _set_attachments(state, message, body, files)
    _set_mentions(state, message, body.get("allowed_mentions"))
    if not any(message[key] for key in ("content", "embeds", "components", "attachments")):
        raise ApiError(400, 50006, "Cannot send an empty message")


def _set_attachments(state: SimulatorState, message: Json, body: Json, files: Files) -> None:
    if any(len(file.data) > state.files_max_bytes for file in files.values()):
        raise ApiError(413, 40005, "Request entity too large")
    existing = {str(item["id"]): item for item in message["attachments"]}
    attachments = body.get("attachments")
    if attachments is not None:
        ids = [str(item["id"]) for item in attachments]
        known = {*existing, *map(str, files)}
        if unknown := [identity for identity in ids if identity not in known]:
            text = f"unknown attachment ids {unknown}"
            raise invalid_body([Problem(("attachments",), text, "ATTACHMENT_NOT_FOUND")])
        existing = {identity: item for identity, item in existing.items() if identity in ids}
    is_ephemeral = bool(message["flags"] & EPHEMERAL)
    stored = [
        state.cdn.store(blob, message["channel_id"], is_ephemeral=is_ephemeral)
        for _, blob in sorted(files.items())
    ]
    message["attachments"] = [*existing.values(), *stored]


def _set_mentions(state: SimulatorState, message: Json, allowed: Json | None) -> None:
    """Set the mentions of a message: those in its text, as far as they are allowed."""
    text = message["content"]
    parse = ["users", "roles", "everyone"] if allowed is None else allowed.get("parse") or []
    named = {key: set(map(str, (allowed or {}).get(key) or [])) for key in ("users", "roles")}

    def find_mentions(key: str, pattern: str, known: Mapping[str, Json]) -> list[str]:
        ids = dict.fromkeys(re.findall(pattern, text))
        return [it for it in ids if it in known and (key in parse or it in named[key])]

    guild = state.guild
    users = find_mentions("users", r"<@!?(\d+)>", guild.users)
    message["mentions"] = [guild.users[user_id] for user_id in users]
    message["mention_roles"] = find_mentions("roles", r"<@&(\d+)>", guild.roles)
    permissions = guild.may(message["author"]["id"], message["channel_id"])
    has_everyone = "everyone" in parse and re.search("@(everyone|here)", text)
    message["mention_everyone"] = bool(permissions & BITS["mention_everyone"] and has_everyone)


def _without_none(fields: Json) -> Json:
    return {key: value for key, value in fields.items() if value is not None}


def number_components(components: list[Json]) -> list[Json]:
    """Return components as in answers: each with a number, and selects with their limits."""
    numbers = iter(range(1, 1000))

    def number_component(component: Json) -> Json:
        result = _without_none(component)
        result["id"] = result.get("id") or next(numbers)
        result |= _normalized_emoji(result)
        if result.get("options"):
            result["options"] = [it | _normalized_emoji(it) for it in result["options"]]
        if result["type"] in (3, 5, 6, 7, 8):
            limits = {"min_values": 1, "max_values": 1}
            result = {**limits, **result}
        if "components" in result:
            result["components"] = [number_component(child) for child in result["components"]]
        if "accessory" in result:
            result["accessory"] = number_component(result["accessory"])
        return result

    return [number_component(component) for component in components]


def _normalized_emoji(component: Json) -> Json:
    if not component.get("emoji"):
        return {}
    emoji = _without_none(component["emoji"])
    return {"emoji": emoji | ({"id": str(emoji["id"])} if "id" in emoji else {})}


def find_message(
    state: SimulatorState, channel_id: str, message_id: str, *, by_token: bool = False
) -> Json:
    """Return a message; ephemeral ones only `by_token`. Raises `ApiError` 10008."""
    message = state.messages[channel_id].get(message_id)
    if message is None or (message["flags"] & EPHEMERAL and not by_token):
        raise unknown_object("Message", 10008)
    return message


async def publish_message(state: SimulatorState, message: Json) -> None:
    """Add a message to its channel."""
    channel = state.guild.channel(message["channel_id"])
    state.messages[channel["id"]][message["id"]] = message
    if message["flags"] & EPHEMERAL:
        return
    channel["last_message_id"] = message["id"]
    if channel["type"] in shapes.THREADS:
        channel["message_count"] += 1
        channel["total_message_sent"] += 1
    await _emit(state, "MESSAGE_CREATE", message)


async def emit_message_update(state: SimulatorState, message: Json) -> None:
    """Send the event about a changed message."""
    if not message["flags"] & EPHEMERAL:
        await _emit(state, "MESSAGE_UPDATE", message)


async def remove_message(state: SimulatorState, message: Json) -> None:
    """Delete a message."""
    del state.messages[message["channel_id"]][message["id"]]
    if message["flags"] & EPHEMERAL:
        return
    channel = state.guild.channel(message["channel_id"])
    event = {"id": message["id"], "channel_id": message["channel_id"]} | _guild_field(channel)
    await state.gateway.emit("MESSAGE_DELETE", event, _intent(channel))


async def _emit(state: SimulatorState, event: str, message: Json) -> None:
    channel = state.guild.channel(message["channel_id"])
    data = {**message, **_guild_field(channel), "channel_type": channel["type"]}
    author = state.guild.members.get(message["author"]["id"])
    if author and channel["type"] != shapes.DM:
        data["member"] = {key: value for key, value in author.items() if key != "user"}
    await state.gateway.emit(event, data, _intent(channel))


def _guild_field(channel: Json) -> Json:
    return {"guild_id": channel["guild_id"]} if "guild_id" in channel else {}


def _intent(channel: Json) -> int:
    return DIRECT_MESSAGES if channel["type"] == shapes.DM else MESSAGES


async def emit_thread_event(state: SimulatorState, event: str, thread: Json) -> None:
    """Send an event about a thread, if the bot sees it."""
    if state.guild.sees(state.guild.bot_id, thread["id"]):
        await state.gateway.emit(event, thread, GUILDS)


@OPERATIONS.add("create_message", "POST", IN_CHANNEL)
async def _create_message(state: SimulatorState, request: Request) -> Answer:
    channel, body = state.guild.channel(request.path["channel_id"]), request.body
    await _check_may_send(state, channel, request)
    if (repeated := _find_repeated(state, body)) is not None:
        return 200, repeated
    message = new_message(state, channel["id"], state.guild.bot)
    _set_reference(state, message, body)
    fill_message(state, message, body, request.files)
    if body.get("nonce") is not None:
        message["nonce"] = body["nonce"]
        state.nonces[str(body["nonce"])] = state.clock.now(), message
    await publish_message(state, message)
    return 200, message


async def _check_may_send(state: SimulatorState, channel: Json, request: Request) -> None:
    if channel["type"] not in WRITABLE:
        raise ApiError(400, 50008, "Cannot send messages in a non-text channel")
    if channel["type"] == shapes.DM:
        if channel["recipients"][0]["id"] in state.closed_doors:
            raise ApiError(403, 50007, "Cannot send messages to this user")
        return
    is_thread = channel["type"] in shapes.THREADS
    permissions = ["send_messages_in_threads" if is_thread else "send_messages"]
    permissions += ["attach_files"] if request.files else []
    permissions += ["embed_links"] if request.body.get("embeds") else []
    state.guild.need(channel["id"], *permissions)
    if is_thread and channel["thread_metadata"]["archived"]:
        if channel["thread_metadata"]["locked"]:
            raise thread_archived()
        channel["thread_metadata"]["archived"] = False
        await emit_thread_event(state, "THREAD_UPDATE", channel)


def _find_repeated(state: SimulatorState, body: Json) -> Json | None:
    at, message = state.nonces.get(str(body.get("nonce")), (0.0, {}))
    is_recent = state.clock.now() - at < state.nonce_s
    return message if body.get("enforce_nonce") and is_recent else None


def _set_reference(state: SimulatorState, message: Json, body: Json) -> None:
    reference = body.get("message_reference") or {}
    if not reference.get("message_id"):
        return
    target = state.messages[message["channel_id"]].get(str(reference["message_id"]))
    if target is None:
        raise invalid_body(
            [Problem(("message_reference",), "Unknown message", "REPLIES_UNKNOWN_MESSAGE")]
        )
    message |= {"type": REPLY, "referenced_message": target}
    message["message_reference"] = {
        "type": 0,
        "channel_id": message["channel_id"],
        "message_id": target["id"],
        "guild_id": state.guild.id,
    }


@OPERATIONS.add("list_messages", "GET", IN_CHANNEL)
async def _list_messages(state: SimulatorState, request: Request) -> Answer:
    channel = state.guild.channel(request.path["channel_id"])
    state.guild.need(channel["id"])
    if not state.guild.may(state.guild.bot_id, channel["id"]) & BITS["read_message_history"]:
        # Discord then returns an empty list, not an error.
        return 200, []
    newest_first = list(state.messages[channel["id"]].values())[::-1]
    after, before = (int(request.query.get(key, 0)) for key in ("after", "before"))
    matching = [
        message
        for message in newest_first
        if not message["flags"] & shapes.EPHEMERAL
        and int(message["id"]) > after
        and (not before or int(message["id"]) < before)
    ]
    # With `after`, the page contains the oldest messages, still listed newest first.
    limit = int(request.query.get("limit", PAGE))
    return 200, matching[-limit:] if "after" in request.query else matching[:limit]


@OPERATIONS.add("get_message", "GET", MESSAGE)
async def _get_message(state: SimulatorState, request: Request) -> Answer:
    channel = state.guild.channel(request.path["channel_id"])
    state.guild.need(channel["id"], "read_message_history")
    return 200, find_message(state, channel["id"], request.path["message_id"])


@OPERATIONS.add("update_message", "PATCH", MESSAGE)
async def _update_message(state: SimulatorState, request: Request) -> Answer:
    channel = state.guild.channel(request.path["channel_id"])
    state.guild.need(channel["id"])
    message = find_message(state, channel["id"], request.path["message_id"])
    if message["author"]["id"] != state.guild.bot_id:
        raise ApiError(403, 50005, "Cannot edit a message authored by another user")
    if channel["type"] in shapes.THREADS and channel["thread_metadata"]["archived"]:
        raise thread_archived()
    change_message(state, message, request.body, request.files)
    await emit_message_update(state, message)
    return 200, message


@OPERATIONS.add("delete_message", "DELETE", MESSAGE)
async def _delete_message(state: SimulatorState, request: Request) -> Answer:
    channel = state.guild.channel(request.path["channel_id"])
    message = find_message(state, channel["id"], request.path["message_id"])
    is_own = message["author"]["id"] == state.guild.bot_id
    state.guild.need(channel["id"], *([] if is_own else ["manage_messages"]))
    await remove_message(state, message)
    return 204, None


@OPERATIONS.add("create_pin", "PUT", PIN)
async def _create_pin(state: SimulatorState, request: Request) -> Answer:
    return await _set_pinned(state, request, is_pinned=True)


@OPERATIONS.add("delete_pin", "DELETE", PIN)
async def _delete_pin(state: SimulatorState, request: Request) -> Answer:
    return await _set_pinned(state, request, is_pinned=False)


async def _set_pinned(state: SimulatorState, request: Request, *, is_pinned: bool) -> Answer:
    channel = state.guild.channel(request.path["channel_id"])
    state.guild.need(channel["id"], "manage_messages")
    message = find_message(state, channel["id"], request.path["message_id"])
    message["pinned"] = is_pinned
    await emit_message_update(state, message)
    return 204, None


@OPERATIONS.add("trigger_typing_indicator", "POST", "/channels/{channel_id}/typing")
async def _trigger_typing_indicator(state: SimulatorState, request: Request) -> Answer:
    state.guild.need(state.guild.channel(request.path["channel_id"])["id"], "send_messages")
    return 204, None
