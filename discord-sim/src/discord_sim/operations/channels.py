"""Channels, threads and posts, and changes to them."""

from discord_sim import shapes
from discord_sim.gateway import GUILDS, MEMBERS
from discord_sim.operations import messages
from discord_sim.shapes import (
    FORUM,
    PRIVATE_THREAD,
    PUBLIC_THREAD,
    TEXT,
    ApiError,
    Json,
    Problem,
    invalid_body,
    rate_limited_error,
    thread_archived,
    unknown_object,
)
from discord_sim.state import Answer, Operations, Request, SimulatorState

CHANNEL_FIELDS = (
    *("name", "topic", "position", "nsfw"),
    *("rate_limit_per_user", "default_forum_layout"),
)
THREAD_FIELDS = ("archived", "locked", "auto_archive_duration", "invitable")
MODERATOR_FIELDS = {"locked", "rate_limit_per_user"}
# Discord documents no number; this one was observed (discord-api-docs, issue 1900).
RENAMES_MAX, RENAMES_S = 2, 600.0
ACTIVE_MAX = 1000
ARCHIVED = "/channels/{channel_id}/threads/archived"
MEMBERS_OF = "/channels/{channel_id}/thread-members"
OPERATIONS = Operations()


def change_channel(state: SimulatorState, channel: Json, body: Json) -> None:
    """Apply a request body to a channel."""
    channel |= {key: body[key] for key in CHANNEL_FIELDS if body.get(key) is not None}
    if "parent_id" in body:
        channel["parent_id"] = str(body["parent_id"]) if body["parent_id"] else None
    if body.get("permission_overwrites") is not None:
        channel["permission_overwrites"] = [
            {
                "id": str(overwrite["id"]),
                "type": overwrite.get("type") or 0,
                "allow": str(overwrite.get("allow") or 0),
                "deny": str(overwrite.get("deny") or 0),
            }
            for overwrite in body["permission_overwrites"]
        ]
    if body.get("available_tags") is not None:
        channel["available_tags"] = [
            {
                "id": str(tag.get("id") or state.ids.next()),
                "name": tag["name"],
                "moderated": bool(tag.get("moderated")),
                "emoji_id": tag.get("emoji_id"),
                "emoji_name": tag.get("emoji_name"),
            }
            for tag in body["available_tags"]
        ]


def change_thread(state: SimulatorState, thread: Json, body: Json) -> None:
    """Apply a request body to a thread. Raises `ApiError` 50013 and 50083."""
    is_restricted = MODERATOR_FIELDS & set(body) or thread["owner_id"] != state.guild.bot_id
    state.guild.need(thread["id"], *(["manage_threads"] if is_restricted else []))
    metadata = thread["thread_metadata"]
    if metadata["archived"] and body.get("archived") is not False:
        raise thread_archived()
    metadata |= {key: body[key] for key in THREAD_FIELDS if body.get(key) is not None}
    if body.get("archived") is not None:
        metadata["archive_timestamp"] = state.clock.iso()
    if body.get("applied_tags") is not None:
        thread["applied_tags"] = [str(tag) for tag in body["applied_tags"]]
    thread |= {key: body[key] for key in ("name", "flags") if body.get(key) is not None}


async def remove_channel(state: SimulatorState, channel: Json) -> None:
    """Delete a channel with all its threads, or a thread."""
    is_thread = channel["type"] in shapes.THREADS
    guild = state.guild
    for child in list(guild.channels.values()):
        if child.get("parent_id") == channel["id"] and child["type"] in shapes.THREADS:
            await remove_channel(state, child)
    del guild.channels[channel["id"]]
    state.messages.pop(channel["id"], None)
    event = channel
    if is_thread:
        event = {key: channel[key] for key in ("id", "guild_id", "parent_id", "type")}
    await state.gateway.emit("THREAD_DELETE" if is_thread else "CHANNEL_DELETE", event, GUILDS)


@OPERATIONS.add("get_channel", "GET", "/channels/{channel_id}")
async def _get_channel(state: SimulatorState, request: Request) -> Answer:
    channel = state.guild.channel(request.path["channel_id"])
    state.guild.need(channel["id"])
    return 200, channel


@OPERATIONS.add("list_guild_channels", "GET", "/guilds/{guild_id}/channels")
async def _list_guild_channels(state: SimulatorState, _: Request) -> Answer:
    kinds = (*shapes.THREADS, shapes.DM)
    return 200, [it for it in state.guild.channels.values() if it["type"] not in kinds]


@OPERATIONS.add("create_guild_channel", "POST", "/guilds/{guild_id}/channels")
async def _create_guild_channel(state: SimulatorState, request: Request) -> Answer:
    state.guild.need(None, "manage_channels")
    body: Json = request.body
    channel = state.guild.add_channel(body["name"], body.get("type") or shapes.TEXT)
    change_channel(state, channel, body)
    await state.gateway.emit("CHANNEL_CREATE", channel, GUILDS)
    return 201, channel


@OPERATIONS.add("update_channel", "PATCH", "/channels/{channel_id}")
async def _update_channel(state: SimulatorState, request: Request) -> Answer:
    channel = state.guild.channel(request.path["channel_id"])
    body: Json = request.body
    if body.get("name") and body["name"] != channel["name"]:
        _count_rename(state, channel["id"])
    if channel["type"] in shapes.THREADS:
        change_thread(state, channel, body)
        await state.gateway.emit("THREAD_UPDATE", channel, GUILDS)
    else:
        state.guild.need(channel["id"], "manage_channels")
        change_channel(state, channel, body)
        await state.gateway.emit("CHANNEL_UPDATE", channel, GUILDS)
    return 200, channel


def _count_rename(state: SimulatorState, channel_id: str) -> None:
    now = state.clock.now()
    renames = [at for at in state.renames[channel_id] if now - at < RENAMES_S]
    if len(renames) >= RENAMES_MAX:
        raise rate_limited_error(RENAMES_S - (now - renames[0]), scope="shared")
    state.renames[channel_id] = [*renames, now]


@OPERATIONS.add("delete_channel", "DELETE", "/channels/{channel_id}")
async def _delete_channel(state: SimulatorState, request: Request) -> Answer:
    channel = state.guild.channel(request.path["channel_id"])
    is_thread = channel["type"] in shapes.THREADS
    state.guild.need(channel["id"], "manage_threads" if is_thread else "manage_channels")
    await remove_channel(state, channel)
    return 200, channel


@OPERATIONS.add("create_thread", "POST", "/channels/{channel_id}/threads")
async def _create_thread(state: SimulatorState, request: Request) -> Answer:
    parent = state.guild.channel(request.path["channel_id"])
    if parent["type"] == FORUM:
        return 201, await _create_post(state, parent, request)
    kind = request.body.get("type") or PRIVATE_THREAD
    return 201, await _start_thread(state, parent, request.body, kind)


@OPERATIONS.add("create_thread_from_message", "POST", f"{messages.MESSAGE}/threads")
async def _create_thread_from_message(state: SimulatorState, request: Request) -> Answer:
    parent = state.guild.channel(request.path["channel_id"])
    message = messages.find_message(state, parent["id"], request.path["message_id"])
    if message["id"] in state.guild.channels:
        raise ApiError(400, 160004, "A thread has already been created for this message")
    thread = await _start_thread(state, parent, request.body, PUBLIC_THREAD, message["id"])
    message["thread"] = state.guild.channels[thread["id"]]
    message["flags"] |= shapes.HAS_THREAD
    return 201, thread


async def _start_thread(
    state: SimulatorState, parent: Json, body: Json, kind: int, identity: str | None = None
) -> Json:
    is_private = kind == PRIVATE_THREAD
    permission = "create_private_threads" if is_private else "create_public_threads"
    state.guild.need(parent["id"], permission)
    if parent["type"] != TEXT:
        raise ApiError(400, 50024, "Cannot execute action on this channel type")
    thread = _add_thread(state, parent, body, kind, identity or state.ids.next())
    await messages.emit_thread_event(state, "THREAD_CREATE", {**thread, "newly_created": True})
    return thread


def _add_thread(state: SimulatorState, parent: Json, body: Json, kind: int, identity: str) -> Json:
    if len(state.guild.threads()) >= ACTIVE_MAX:
        raise ApiError(400, 160006, "Maximum number of active threads reached")
    bot_id, now = state.guild.bot_id, state.clock.iso()
    thread = shapes.thread(identity, parent, body, shapes.ThreadStart(kind, bot_id, now))
    member = shapes.thread_member(identity, bot_id, now)
    state.guild.channels[identity] = thread
    state.guild.thread_members[identity][bot_id] = member
    return {**thread, "member": member}


async def _create_post(state: SimulatorState, forum: Json, request: Request) -> Json:
    body: Json = request.body
    state.guild.need(forum["id"], "send_messages")
    known = {tag["id"] for tag in forum["available_tags"]}
    if unknown := [tag for tag in body.get("applied_tags") or [] if str(tag) not in known]:
        raise invalid_body(
            [Problem(("applied_tags",), f"unknown tags {unknown}", "FORUM_TAG_UNKNOWN")]
        )
    identity = state.ids.next()
    message = messages.new_message(state, identity, state.guild.bot)
    # The first message of a post has the id of its thread.
    message["id"] = identity
    try:
        messages.fill_message(state, message, body["message"], request.files)
    except ApiError as error:
        error.problems = [problem.under("message") for problem in error.problems]
        raise
    thread = _add_thread(state, forum, body, PUBLIC_THREAD, identity)
    forum["last_message_id"] = identity
    await messages.emit_thread_event(state, "THREAD_CREATE", {**thread, "newly_created": True})
    await messages.publish_message(state, message)
    return {**thread, "message": message}


@OPERATIONS.add("join_thread", "PUT", f"{MEMBERS_OF}/@me")
async def _join_thread(state: SimulatorState, request: Request) -> Answer:
    await _join(state, request.path["channel_id"], state.guild.bot_id)
    return 204, None


@OPERATIONS.add("add_thread_member", "PUT", f"{MEMBERS_OF}/{{user_id}}")
async def _add_thread_member(state: SimulatorState, request: Request) -> Answer:
    state.guild.need(
        state.guild.channel(request.path["channel_id"])["id"], "send_messages_in_threads"
    )
    await _join(state, request.path["channel_id"], request.path["user_id"])
    return 204, None


async def _join(state: SimulatorState, thread_id: str, user_id: str) -> None:
    thread = _find_thread(state, thread_id)
    if thread["thread_metadata"]["archived"]:
        raise thread_archived()
    member = state.guild.member(user_id)
    members = state.guild.thread_members[thread_id]
    if user_id in members:
        return
    members[user_id] = shapes.thread_member(thread_id, user_id, state.clock.iso())
    thread["member_count"] += 1
    added = {**members[user_id], "member": member, "presence": None}
    await _emit_members_update(state, thread, [added], [])


@OPERATIONS.add("delete_thread_member", "DELETE", f"{MEMBERS_OF}/{{user_id}}")
async def _delete_thread_member(state: SimulatorState, request: Request) -> Answer:
    thread = _find_thread(state, request.path["channel_id"])
    state.guild.need(thread["id"], "manage_threads")
    user_id = request.path["user_id"]
    if state.guild.thread_members[thread["id"]].pop(user_id, None):
        thread["member_count"] -= 1
        await _emit_members_update(state, thread, [], [user_id])
    return 204, None


async def _emit_members_update(
    state: SimulatorState, thread: Json, added: list[Json], removed: list[str]
) -> None:
    event = {"id": thread["id"], "guild_id": state.guild.id}
    event |= {"member_count": thread["member_count"]}
    event |= {"added_members": added, "removed_member_ids": removed}
    await state.gateway.emit("THREAD_MEMBERS_UPDATE", event, MEMBERS)


@OPERATIONS.add("list_thread_members", "GET", MEMBERS_OF)
async def _list_thread_members(state: SimulatorState, request: Request) -> Answer:
    thread = _find_thread(state, request.path["channel_id"])
    return 200, list(state.guild.thread_members[thread["id"]].values())


def _find_thread(state: SimulatorState, thread_id: str) -> Json:
    channel = state.guild.channel(thread_id)
    if channel["type"] not in shapes.THREADS:
        raise unknown_object("Channel", 10003)
    return channel


@OPERATIONS.add("get_active_guild_threads", "GET", "/guilds/{guild_id}/threads/active")
async def _get_active_guild_threads(state: SimulatorState, _: Request) -> Answer:
    return 200, _thread_list(state, state.guild.threads())


@OPERATIONS.add("list_public_archived_threads", "GET", f"{ARCHIVED}/public")
async def _list_public_archived_threads(state: SimulatorState, request: Request) -> Answer:
    return 200, _list_archived(state, request, PUBLIC_THREAD)


@OPERATIONS.add("list_private_archived_threads", "GET", f"{ARCHIVED}/private")
async def _list_private_archived_threads(state: SimulatorState, request: Request) -> Answer:
    state.guild.need(request.path["channel_id"], "manage_threads")
    return 200, _list_archived(state, request, PRIVATE_THREAD)


def _list_archived(state: SimulatorState, request: Request, kind: int) -> Json:
    parent = request.path["channel_id"]
    threads = [
        thread
        for thread in state.guild.threads(is_archived=True)
        if thread["parent_id"] == parent and thread["type"] == kind
    ]
    return _thread_list(state, threads)


def _thread_list(state: SimulatorState, threads: list[Json]) -> Json:
    thread_members, bot_id = state.guild.thread_members, state.guild.bot_id
    members = [thread_members[thread["id"]].get(bot_id) for thread in threads]
    own = [member for member in members if member]
    return {"threads": threads, "members": own, "has_more": False}
