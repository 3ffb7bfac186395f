"""The server: its members, roles, channels, threads and permissions."""

from collections import defaultdict
from typing import Any

from discord_sim import shapes
from discord_sim.clock import Clock, Ids
from discord_sim.shapes import ApiError, Json, unknown_object

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
# All permission bits, including future ones.
ALL = (1 << 53) - 1
# The permissions of everybody in a new server, as far as they matter to a bot.
EVERYONE = (
    *("view_channel", "send_messages", "read_message_history", "use_application_commands"),
    *("attach_files", "embed_links", "send_messages_in_threads"),
)
# The permissions that the bot is invited with; channels and roles are for its set-up only.
BOT = (
    *("create_public_threads", "create_private_threads", "manage_threads"),
    *("manage_channels", "manage_roles"),
)
# Fields that the document requires and the bots ignore.
_NULL_FIELDS = (
    *("icon", "description", "home_header", "splash", "discovery_splash", "banner"),
    *("application_id", "afk_channel_id", "system_channel_id", "widget_channel_id"),
    *("max_presences", "vanity_url_code", "rules_channel_id", "safety_alerts_channel_id"),
    *("public_updates_channel_id", "incidents_data"),
)
_ZERO_FIELDS = (
    *("system_channel_flags", "verification_level", "default_message_notifications", "mfa_level"),
    *("explicit_content_filter", "premium_tier", "premium_subscription_count", "nsfw_level"),
)
_CONSTANT_FIELDS: Json = {
    **dict.fromkeys(_NULL_FIELDS),
    **dict.fromkeys(_ZERO_FIELDS, 0),
    **dict.fromkeys(("widget_enabled", "premium_progress_bar_enabled", "nsfw"), False),
    "region": "us-west",
    "preferred_locale": "en-US",
    "afk_timeout": 300,
    "max_members": 500000,
    "max_stage_video_channel_users": 50,
    "max_video_channel_users": 25,
    "emojis": [],
    "stickers": [],
}
_GATEWAY_LISTS = (
    *("voice_states", "presences", "stage_instances"),
    *("guild_scheduled_events", "soundboard_sounds"),
)


def permission_bits(*names: str) -> int:
    """Return the bits of permissions, by name."""
    return sum(BITS[name] for name in names)


def apply_overwrites(
    allowed: int, overwrites: list[dict[str, Any]], user_id: str, role_ids: list[str]
) -> int:
    """Apply a channel's overwrites, where `role_ids` begins with the role of @everyone."""
    by_id = {overwrite["id"]: overwrite for overwrite in overwrites}
    for ids in (role_ids[:1], role_ids[1:], [user_id]):
        deny = allow = 0
        for overwrite in (by_id[identity] for identity in ids if identity in by_id):
            deny |= int(overwrite["deny"])
            allow |= int(overwrite["allow"])
        allowed = allowed & ~deny | allow
    return allowed


class Guild:
    """The state of the server; its callers send the gateway events about changes."""

    def __init__(self, clock: Clock, ids: Ids, identity: str = "") -> None:
        self._clock, self._ids = clock, ids
        self.users: dict[str, Json] = {}
        self.members: dict[str, Json] = {}
        self.roles: dict[str, Json] = {}
        self.channels: dict[str, Json] = {}
        self.thread_members: dict[str, dict[str, Json]] = defaultdict(dict)
        self.features: list[str] = []
        self.id = identity or ids.next()
        self.roles[self.id] = shapes.role(self.id, "@everyone", permission_bits(*EVERYONE), 0)
        self.bot_role = self.add_role("bot", permission_bits(*BOT))
        bot = shapes.user(ids.next(), "warpboard", is_bot=True)
        self.bot_id = self._join(bot, [self.bot_role])
        self.owner_id = self.add_user("owner")

    @property
    def bot(self) -> Json:
        """The bot, as a user."""
        return self.users[self.bot_id]

    def add_user(self, name: str, roles: list[str] | None = None, identity: str = "") -> str:
        """Add a user to the server, and return the id; by default it is a new one."""
        return self._join(shapes.user(identity or self._ids.next(), name), roles or [])

    def _join(self, user: Json, roles: list[str]) -> str:
        identity: str = user["id"]
        self.users[identity] = user
        self.members[identity] = shapes.member(user, roles, self._clock.iso())
        return identity

    def add_role(self, name: str, allowed: int = 0, identity: str = "") -> str:
        """Add a role, and return its id; by default it is a new one."""
        identity = identity or self._ids.next()
        self.roles[identity] = shapes.role(identity, name, allowed, len(self.roles))
        return identity

    def add_channel(self, name: str, kind: int = shapes.TEXT, identity: str = "") -> Json:
        """Add a channel; by default its id is a new one."""
        identity = identity or self._ids.next()
        channel = shapes.channel(identity, self.id, kind, name, len(self.channels))
        self.channels[identity] = channel
        return channel

    def private_with(self, user_id: str) -> Json:
        """Return the channel of the direct messages with a user."""
        for channel in self.channels.values():
            if channel["type"] == shapes.DM and channel["recipients"][0]["id"] == user_id:
                return channel
        channel = shapes.direct_channel(self._ids.next(), self.users[user_id])
        self.channels[channel["id"]] = channel
        return channel

    def channel(self, channel_id: str) -> Json:
        """Return a channel or thread. Raises `ApiError` 10003."""
        if channel_id not in self.channels:
            raise unknown_object("Channel", 10003)
        return self.channels[channel_id]

    def member(self, user_id: str) -> Json:
        """Return a member. Raises `ApiError` 10007."""
        if user_id not in self.members:
            raise unknown_object("Member", 10007)
        return self.members[user_id]

    def role(self, role_id: str) -> Json:
        """Return a role. Raises `ApiError` 10011."""
        if role_id not in self.roles:
            raise unknown_object("Role", 10011)
        return self.roles[role_id]

    def may(self, user_id: str, channel_id: str | None = None) -> int:
        """Return a user's permissions, in a channel or in general."""
        if user_id == self.owner_id:
            return ALL
        channel = self.channels.get(channel_id or "", {"type": shapes.CATEGORY})
        if channel["type"] == shapes.DM:
            return permission_bits(*EVERYONE)
        if channel["type"] in shapes.THREADS:
            channel = self.channels.get(channel["parent_id"], {})
        role_ids = [self.id, *self.members[user_id]["roles"]]
        allowed = 0
        for role_id in role_ids:
            allowed |= int(self.roles[role_id]["permissions"])
        if allowed & BITS["administrator"]:
            return ALL
        overwrites = channel.get("permission_overwrites", [])
        return apply_overwrites(allowed, overwrites, user_id, role_ids)

    def sees(self, user_id: str, channel_id: str) -> bool:
        """Whether a user can open a channel."""
        channel = self.channels.get(channel_id)
        if channel is None:
            return False
        if channel["type"] == shapes.DM:
            return user_id in (self.bot_id, channel["recipients"][0]["id"])
        allowed = self.may(user_id, channel_id)
        is_excluded = channel["type"] == shapes.PRIVATE_THREAD and not (
            user_id in self.thread_members[channel_id] or allowed & BITS["manage_threads"]
        )
        return bool(allowed & BITS["view_channel"]) and not is_excluded

    def need(self, channel_id: str | None, *names: str) -> None:
        """Check the bot's permissions, in a channel or in general. Raises `ApiError`."""
        if channel_id is not None and not self.sees(self.bot_id, channel_id):
            raise ApiError(403, 50001, "Missing Access")
        if permission_bits(*names) & ~self.may(self.bot_id, channel_id):
            raise ApiError(403, 50013, "Missing Permissions")

    def threads(self, *, is_archived: bool = False) -> list[Json]:
        """Return all archived threads, or all active ones."""
        threads = [it for it in self.channels.values() if it["type"] in shapes.THREADS]
        return [it for it in threads if it["thread_metadata"]["archived"] == is_archived]

    def api_object(self) -> Json:
        """Return the server as the HTTP API shows it."""
        return {
            "id": self.id,
            "name": "Warpboard (simulated)",
            "owner_id": self.owner_id,
            "features": self.features,
            "roles": list(self.roles.values()),
            **_CONSTANT_FIELDS,
        }

    def gateway_object(self) -> Json:
        """Return the server as the gateway shows it."""
        kinds = (shapes.TEXT, shapes.CATEGORY, shapes.FORUM)
        visible = [it for it in self.channels.values() if self.sees(self.bot_id, it["id"])]
        return {
            **self.api_object(),
            **{name: list[Json]() for name in _GATEWAY_LISTS},
            "hub_type": None,
            "joined_at": self._clock.iso(),
            "large": False,
            "unavailable": False,
            "member_count": len(self.members),
            "members": [self.members[self.bot_id]],
            "channels": [channel for channel in visible if channel["type"] in kinds],
            "threads": [it for it in self.threads() if self.sees(self.bot_id, it["id"])],
        }
