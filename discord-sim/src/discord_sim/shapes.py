"""Discord's objects as JSON, with each field that its document requires."""

from typing import Any, NamedTuple

Json = dict[str, Any]

TEXT, DM, CATEGORY, FORUM = 0, 1, 4, 15
PUBLIC_THREAD, PRIVATE_THREAD = 11, 12
THREADS = (10, PUBLIC_THREAD, PRIVATE_THREAD)

SUPPRESS, HAS_THREAD, EPHEMERAL, LOADING = 1 << 2, 1 << 5, 1 << 6, 1 << 7
SUPPRESS_NOTIFICATIONS, COMPONENTS_V2 = 1 << 12, 1 << 15

FILE_BYTES_MAX = 10 * 1024 * 1024


def user(identity: str, name: str, *, is_bot: bool = False) -> Json:
    """Return a user."""
    return {
        **dict.fromkeys(("avatar", "primary_guild")),
        "id": identity,
        "username": name,
        "global_name": name.title(),
        "discriminator": "0",
        "public_flags": 0,
        "flags": 0,
        "bot": is_bot,
        "system": False,
    }


def member(user_object: Json, roles: list[str], joined_at: str) -> Json:
    """Return a member of the server."""
    nulls = ("avatar", "banner", "communication_disabled_until", "nick", "premium_since")
    return {
        **dict.fromkeys(nulls),
        **dict.fromkeys(("pending", "mute", "deaf"), False),
        "flags": 0,
        "joined_at": joined_at,
        "roles": roles,
        "user": user_object,
    }


def role(identity: str, name: str, permissions: int, position: int) -> Json:
    """Return a role; the one of @everyone has the server's id."""
    return {
        **dict.fromkeys(("hoist", "managed", "mentionable"), False),
        **dict.fromkeys(("icon", "unicode_emoji")),
        "id": identity,
        "name": name,
        "permissions": str(permissions),
        "position": position,
        "color": 0,
        "flags": 0,
        "colors": {"primary_color": 0, "secondary_color": None, "tertiary_color": None},
    }


def channel(identity: str, guild_id: str, kind: int, name: str, position: int) -> Json:
    """Return a channel of the server that is not a thread."""
    result = {
        "id": identity,
        "type": kind,
        "guild_id": guild_id,
        "name": name,
        "position": position,
        "flags": 0,
        "parent_id": None,
        "permission_overwrites": [],
        "nsfw": False,
    }
    if kind in (TEXT, FORUM):
        result |= {"topic": None, "rate_limit_per_user": 0, "last_message_id": None}
    if kind == FORUM:
        result |= {"available_tags": [], "default_reaction_emoji": None}
        result |= {"default_sort_order": None, "default_forum_layout": 0}
    return result


class ThreadStart(NamedTuple):
    """The kind of a thread, its owner, and when it was created."""

    kind: int
    owner_id: str
    at: str


def thread(identity: str, parent: Json, body: Json, start: ThreadStart) -> Json:
    """Return a new thread."""
    metadata: Json = {
        "archived": False,
        "archive_timestamp": start.at,
        "create_timestamp": start.at,
        "auto_archive_duration": body.get("auto_archive_duration") or 4320,
        "locked": False,
    }
    if start.kind == PRIVATE_THREAD:
        metadata["invitable"] = body.get("invitable") is not False
    result: Json = {
        "id": identity,
        "type": start.kind,
        "name": body["name"],
        "owner_id": start.owner_id,
        "guild_id": parent["guild_id"],
        "parent_id": parent["id"],
        "last_message_id": None,
        "flags": 0,
        "message_count": 0,
        "member_count": 1,
        "total_message_sent": 0,
        "rate_limit_per_user": body.get("rate_limit_per_user") or 0,
        "thread_metadata": metadata,
    }
    if parent["type"] == FORUM:
        result["applied_tags"] = [str(tag) for tag in body.get("applied_tags") or []]
    return result


def thread_member(thread_id: str, user_id: str, at: str) -> Json:
    """Return a member of a thread."""
    return {"id": thread_id, "user_id": user_id, "join_timestamp": at, "flags": 0}


def direct_channel(identity: str, recipient: Json) -> Json:
    """Return the channel of direct messages with a user."""
    result = {"id": identity, "type": DM, "flags": 0, "last_message_id": None}
    return {**result, "recipients": [recipient]}


def message(identity: str, channel_id: str, author: Json, at: str) -> Json:
    """Return an empty message."""
    lists = ("mentions", "mention_roles", "attachments", "embeds", "components")
    return {
        **{name: list[Any]() for name in lists},
        "id": identity,
        "channel_id": channel_id,
        "author": author,
        "timestamp": at,
        "type": 0,
        "content": "",
        "flags": 0,
        "edited_timestamp": None,
        "pinned": False,
        "mention_everyone": False,
        "tts": False,
    }


def command(identity: str, body: Json) -> Json:
    """Return a stored command, without the ids of its application and server."""
    permissions = body.get("default_member_permissions")
    localized = ("contexts", "name_localizations", "description_localizations")
    return {
        **{name: body.get(name) for name in localized},
        "id": identity,
        "type": body.get("type") or 1,
        "name": body["name"],
        "description": body.get("description") or "",
        "options": without_none(body.get("options") or []),
        "default_member_permissions": None if permissions is None else str(permissions),
        "dm_permission": body.get("dm_permission", True),
        "nsfw": bool(body.get("nsfw")),
        "integration_types": body.get("integration_types") or [0],
    }


def emoji(identity: str, name: str, creator: Json) -> Json:
    """Return an emoji of an application."""
    result = {"id": identity, "name": name, "roles": [], "user": creator, "available": True}
    return {**result, "require_colons": True, "managed": False, "animated": False}


def without_none(options: list[Json]) -> list[Json]:
    """Return the options of a command without fields that are null."""
    return [
        {
            key: without_none(value) if key == "options" else value
            for key, value in option.items()
            if value is not None
        }
        for option in options
    ]
