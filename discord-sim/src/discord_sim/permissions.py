"""Permission bits, and what somebody may do in a channel."""

from typing import Any

BITS = {
    "administrator": 1 << 3,
    "manage_channels": 1 << 4,
    "manage_guild": 1 << 5,
    "view_channel": 1 << 10,
    "send_messages": 1 << 11,
    "manage_messages": 1 << 13,
    "embed_links": 1 << 14,
    "attach_files": 1 << 15,
    "read_message_history": 1 << 16,
    "mention_everyone": 1 << 17,
    "manage_roles": 1 << 28,
    "manage_webhooks": 1 << 29,
    "use_application_commands": 1 << 31,
    "manage_threads": 1 << 34,
    "create_public_threads": 1 << 35,
    "create_private_threads": 1 << 36,
    "send_messages_in_threads": 1 << 38,
}
# Every bit that Discord has, and those that it may have one day.
ALL = (1 << 53) - 1


def bits(*names: str) -> int:
    """Permissions by their names, as one number."""
    return sum(BITS[name] for name in names)


# What a new server lets everybody do, as far as it matters to a bot.
EVERYONE = (
    "view_channel",
    "send_messages",
    "read_message_history",
    "use_application_commands",
    "attach_files",
    "embed_links",
    "send_messages_in_threads",
)
# What a leaderboard's bot is invited with; channels and roles are for the set-up alone.
BOT = (
    "create_public_threads",
    "create_private_threads",
    "manage_threads",
    "manage_channels",
    "manage_roles",
)


def of_roles(roles: dict[str, dict[str, Any]], held: list[str]) -> int:
    """What several roles allow together, anywhere in the server."""
    found = 0
    for one in held:
        found |= int(roles[one]["permissions"])
    return ALL if found & BITS["administrator"] else found


def overwritten(
    allowed: int, overwrites: list[dict[str, Any]], user_id: str, held: list[str]
) -> int:
    """What is left in a channel: @everyone's rule first, then the roles', then the person's own.

    `held` begins with @everyone's role.
    """
    if allowed == ALL:
        return ALL
    by_id = {one["id"]: one for one in overwrites}
    allowed = _apply(allowed, [by_id[held[0]]] if held[0] in by_id else [])
    allowed = _apply(allowed, [by_id[one] for one in held[1:] if one in by_id])
    return _apply(allowed, [by_id[user_id]] if user_id in by_id else [])


def _apply(allowed: int, overwrites: list[dict[str, Any]]) -> int:
    deny = allow = 0
    for one in overwrites:
        deny |= int(one["deny"])
        allow |= int(one["allow"])
    return allowed & ~deny | allow
