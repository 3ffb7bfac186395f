"""Threads in channels, posts in forums, and who is in them."""

from discord_sim import effects, shapes
from discord_sim.errors import ApiError, Problem, invalid, unknown
from discord_sim.gateway.intents import MEMBERS
from discord_sim.operations.changes import ARCHIVED
from discord_sim.operations.operation import Answer, Request, operation
from discord_sim.parts import Parts
from discord_sim.shapes import FORUM, PRIVATE_THREAD, PUBLIC_THREAD, TEXT, Json

ACTIVE_MAX = 1000
MEMBERS_OF = "/channels/{channel_id}/thread-members"


@operation("POST", "/channels/{channel_id}/threads")
async def create_thread(parts: Parts, request: Request) -> Answer:
    """A thread in a text channel, or a post in a forum."""
    parent = parts.guild.channel(request.path["channel_id"])
    if parent["type"] == FORUM:
        return 201, await _post(parts, parent, request)
    kind = request.body.get("type") or PRIVATE_THREAD
    return 201, await _begin(parts, parent, request.body, kind)


@operation("POST", "/channels/{channel_id}/messages/{message_id}/threads")
async def create_thread_from_message(parts: Parts, request: Request) -> Answer:
    """A thread that begins at a message, whose id it has."""
    parent = parts.guild.channel(request.path["channel_id"])
    message = effects.find(parts, parent["id"], request.path["message_id"])
    if message["id"] in parts.guild.channels:
        raise ApiError(400, 160004, "A thread has already been created for this message")
    thread = await _begin(parts, parent, request.body, PUBLIC_THREAD, message["id"])
    message["thread"] = parts.guild.channels[thread["id"]]
    message["flags"] |= shapes.HAS_THREAD
    return 201, thread


async def _begin(
    parts: Parts, parent: Json, body: Json, kind: int, identity: str | None = None
) -> Json:
    is_private = kind == PRIVATE_THREAD
    needed = "create_private_threads" if is_private else "create_public_threads"
    parts.guild.need(parent["id"], needed)
    if parent["type"] != TEXT:
        raise ApiError(400, 50024, "Cannot execute action on this channel type")
    thread = _made(parts, parent, body, kind, identity or parts.ids.next())
    await effects.tell_thread(parts, "THREAD_CREATE", {**thread, "newly_created": True})
    return thread


def _made(parts: Parts, parent: Json, body: Json, kind: int, identity: str) -> Json:
    if len(parts.guild.threads()) >= ACTIVE_MAX:
        raise ApiError(400, 160006, "Maximum number of active threads reached")
    bot_id, now = parts.guild.bot_id, parts.clock.iso()
    thread = shapes.thread(identity, parent, body, shapes.Begun(kind, bot_id, now))
    member = shapes.thread_member(identity, bot_id, now)
    parts.guild.channels[identity] = thread
    parts.guild.thread_members[identity][bot_id] = member
    return {**thread, "member": member}


async def _post(parts: Parts, forum: Json, request: Request) -> Json:
    body: Json = request.body
    parts.guild.need(forum["id"], "send_messages")
    known = {one["id"] for one in forum["available_tags"]}
    if lost := [one for one in body.get("applied_tags") or [] if str(one) not in known]:
        raise invalid([Problem(("applied_tags",), f"unknown tags {lost}", "FORUM_TAG_UNKNOWN")])
    identity = parts.ids.next()
    message = effects.new(parts, identity, parts.guild.bot)
    # The first message of a post has the id of its thread.
    message["id"] = identity
    try:
        effects.fill(parts, message, body["message"], request.files)
    except ApiError as error:
        error.problems = [one.under("message") for one in error.problems]
        raise
    thread = _made(parts, forum, body, PUBLIC_THREAD, identity)
    forum["last_message_id"] = identity
    await effects.tell_thread(parts, "THREAD_CREATE", {**thread, "newly_created": True})
    await effects.post(parts, message)
    return {**thread, "message": message}


@operation("PUT", f"{MEMBERS_OF}/@me")
async def join_thread(parts: Parts, request: Request) -> Answer:
    """The bot comes in."""
    await _join(parts, request.path["channel_id"], parts.guild.bot_id)
    return 204, None


@operation("PUT", f"{MEMBERS_OF}/{{user_id}}")
async def add_thread_member(parts: Parts, request: Request) -> Answer:
    """Somebody is brought in."""
    parts.guild.need(
        parts.guild.channel(request.path["channel_id"])["id"], "send_messages_in_threads"
    )
    await _join(parts, request.path["channel_id"], request.path["user_id"])
    return 204, None


async def _join(parts: Parts, thread_id: str, user_id: str) -> None:
    thread = _thread(parts, thread_id)
    if thread["thread_metadata"]["archived"]:
        raise ARCHIVED
    member = parts.guild.member(user_id)
    joined = parts.guild.thread_members[thread_id]
    if user_id in joined:
        return
    joined[user_id] = shapes.thread_member(thread_id, user_id, parts.clock.iso())
    thread["member_count"] += 1
    added = {**joined[user_id], "member": member, "presence": None}
    await _tell_members(parts, thread, [added], [])


@operation("DELETE", f"{MEMBERS_OF}/{{user_id}}")
async def delete_thread_member(parts: Parts, request: Request) -> Answer:
    """Somebody is put out."""
    thread = _thread(parts, request.path["channel_id"])
    parts.guild.need(thread["id"], "manage_threads")
    user_id = request.path["user_id"]
    if parts.guild.thread_members[thread["id"]].pop(user_id, None):
        thread["member_count"] -= 1
        await _tell_members(parts, thread, [], [user_id])
    return 204, None


async def _tell_members(parts: Parts, thread: Json, added: list[Json], removed: list[str]) -> None:
    told = {
        "id": thread["id"],
        "guild_id": parts.guild.id,
        "member_count": thread["member_count"],
        "added_members": added,
        "removed_member_ids": removed,
    }
    await parts.gateway.emit("THREAD_MEMBERS_UPDATE", told, MEMBERS)


@operation("GET", MEMBERS_OF)
async def list_thread_members(parts: Parts, request: Request) -> Answer:
    """Who is in a thread."""
    thread = _thread(parts, request.path["channel_id"])
    return 200, list(parts.guild.thread_members[thread["id"]].values())


def _thread(parts: Parts, thread_id: str) -> Json:
    found = parts.guild.channel(thread_id)
    if found["type"] not in shapes.THREADS:
        raise unknown("Channel", 10003)
    return found


@operation("GET", "/guilds/{guild_id}/threads/active")
async def get_active_guild_threads(parts: Parts, _: Request) -> Answer:
    """Every thread that is not archived."""
    return 200, _listed(parts, parts.guild.threads())


@operation("GET", "/channels/{channel_id}/threads/archived/public")
async def list_public_archived_threads(parts: Parts, request: Request) -> Answer:
    """Archived threads of a channel that everybody sees."""
    return 200, _archived(parts, request, PUBLIC_THREAD)


@operation("GET", "/channels/{channel_id}/threads/archived/private")
async def list_private_archived_threads(parts: Parts, request: Request) -> Answer:
    """Archived threads of a channel that few see."""
    parts.guild.need(request.path["channel_id"], "manage_threads")
    return 200, _archived(parts, request, PRIVATE_THREAD)


def _archived(parts: Parts, request: Request, kind: int) -> Json:
    parent = request.path["channel_id"]
    found = [
        one
        for one in parts.guild.threads(is_archived=True)
        if one["parent_id"] == parent and one["type"] == kind
    ]
    return _listed(parts, found)


def _listed(parts: Parts, threads: list[Json]) -> Json:
    joined = parts.guild.thread_members
    members = [joined[one["id"]].get(parts.guild.bot_id) for one in threads]
    return {"threads": threads, "members": [one for one in members if one], "has_more": False}
