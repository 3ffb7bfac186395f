"""The one server: who is in it, its roles, channels and threads, and who may do what."""

from collections import defaultdict

from discord_sim import permissions, shapes
from discord_sim.clock import Clock, Ids
from discord_sim.errors import ApiError, unknown
from discord_sim.shapes import Json


class Guild:
    """The state of the server; who changes it also tells the gateway."""

    def __init__(self, clock: Clock, ids: Ids, identity: str = "") -> None:
        """A server with an owner and the bot; it has an id of its own where none is given."""
        self._clock, self._ids = clock, ids
        self.users: dict[str, Json] = {}
        self.members: dict[str, Json] = {}
        self.roles: dict[str, Json] = {}
        self.channels: dict[str, Json] = {}
        self.thread_members: dict[str, dict[str, Json]] = defaultdict(dict)
        self.features: list[str] = []
        self.id = identity or ids.next()
        self.roles[self.id] = shapes.role(
            self.id, "@everyone", permissions.bits(*permissions.EVERYONE), 0
        )
        self.bot_id = ids.next()
        self.bot_role = self.add_role("bot", permissions.bits(*permissions.BOT))
        self.users[self.bot_id] = shapes.user(self.bot_id, "warpboard", is_bot=True)
        self._join(self.bot_id, [self.bot_role])
        self.owner_id = self.add_user("owner")

    @property
    def bot(self) -> Json:
        """The bot, as a user."""
        return self.users[self.bot_id]

    def add_user(self, name: str, roles: list[str] | None = None) -> str:
        """Somebody new in the server."""
        identity = self._ids.next()
        self.users[identity] = shapes.user(identity, name)
        self._join(identity, roles or [])
        return identity

    def _join(self, user_id: str, roles: list[str]) -> None:
        joined_at = self._clock.iso()
        self.members[user_id] = shapes.member(self.users[user_id], roles, joined_at)

    def add_role(self, name: str, allowed: int = 0) -> str:
        """A new role; who adds it tells the gateway."""
        identity = self._ids.next()
        self.roles[identity] = shapes.role(identity, name, allowed, len(self.roles))
        return identity

    def add_channel(self, name: str, kind: int = shapes.TEXT) -> Json:
        """A new channel; who adds it tells the gateway."""
        identity = self._ids.next()
        found = shapes.channel(identity, self.id, kind, name, len(self.channels))
        self.channels[identity] = found
        return found

    def private_with(self, user_id: str) -> Json:
        """The channel of direct messages with somebody."""
        for one in self.channels.values():
            if one["type"] == shapes.DM and one["recipients"][0]["id"] == user_id:
                return one
        found = shapes.private(self._ids.next(), self.users[user_id])
        self.channels[found["id"]] = found
        return found

    def channel(self, channel_id: str) -> Json:
        """A channel or thread. Errors: ApiError 10003."""
        if channel_id not in self.channels:
            raise unknown("Channel", 10003)
        return self.channels[channel_id]

    def member(self, user_id: str) -> Json:
        """Somebody in the server. Errors: ApiError 10007."""
        if user_id not in self.members:
            raise unknown("Member", 10007)
        return self.members[user_id]

    def role(self, role_id: str) -> Json:
        """A role. Errors: ApiError 10011."""
        if role_id not in self.roles:
            raise unknown("Role", 10011)
        return self.roles[role_id]

    def may(self, user_id: str, channel_id: str | None = None) -> int:
        """Somebody's permissions, in a channel or in general."""
        if user_id == self.owner_id:
            return permissions.ALL
        found = self.channels.get(channel_id or "", {"type": shapes.CATEGORY})
        if found["type"] == shapes.DM:
            return permissions.bits(*permissions.EVERYONE)
        if found["type"] in shapes.THREADS:
            found = self.channels.get(found["parent_id"], {})
        held = [self.id, *self.members[user_id]["roles"]]
        allowed = permissions.of_roles(self.roles, held)
        overwrites = found.get("permission_overwrites", [])
        return permissions.overwritten(allowed, overwrites, user_id, held)

    def sees(self, user_id: str, channel_id: str) -> bool:
        """Whether somebody can open a channel at all."""
        found = self.channels.get(channel_id)
        if found is None:
            return False
        if found["type"] == shapes.DM:
            return user_id in (self.bot_id, found["recipients"][0]["id"])
        allowed = self.may(user_id, channel_id)
        is_guest = found["type"] == shapes.PRIVATE_THREAD and not (
            user_id in self.thread_members[channel_id]
            or allowed & permissions.BITS["manage_threads"]
        )
        return bool(allowed & permissions.BITS["view_channel"]) and not is_guest

    def need(self, channel_id: str, *names: str) -> None:
        """What the bot must be allowed. Errors: ApiError 50001 and 50013."""
        if not self.sees(self.bot_id, channel_id):
            raise ApiError(403, 50001, "Missing Access")
        if permissions.bits(*names) & ~self.may(self.bot_id, channel_id):
            raise ApiError(403, 50013, "Missing Permissions")

    def threads(self, *, is_archived: bool = False) -> list[Json]:
        """All threads that are archived, or all that are not."""
        return [
            one
            for one in self.channels.values()
            if one["type"] in shapes.THREADS and one["thread_metadata"]["archived"] == is_archived
        ]

    def said(self) -> Json:
        """The server, as it is asked for over HTTP."""
        return {
            "id": self.id,
            "name": "Warpboard (simulated)",
            "owner_id": self.owner_id,
            "features": self.features,
            "roles": list(self.roles.values()),
            **_FIXED,
        }

    def announced(self) -> Json:
        """The server, as the gateway tells of it."""
        kinds = (shapes.TEXT, shapes.CATEGORY, shapes.FORUM)
        seen = [one for one in self.channels.values() if self.sees(self.bot_id, one["id"])]
        return {
            **self.said(),
            "hub_type": None,
            "joined_at": self._clock.iso(),
            "large": False,
            "unavailable": False,
            "member_count": len(self.members),
            "voice_states": [],
            "members": [self.members[self.bot_id]],
            "channels": [one for one in seen if one["type"] in kinds],
            "threads": [one for one in self.threads() if self.sees(self.bot_id, one["id"])],
            "presences": [],
            "stage_instances": [],
            "guild_scheduled_events": [],
            "soundboard_sounds": [],
        }


# What no bot of ours looks at, but the document requires.
_FIXED: Json = {
    "icon": None,
    "description": None,
    "home_header": None,
    "splash": None,
    "discovery_splash": None,
    "banner": None,
    "application_id": None,
    "region": "us-west",
    "afk_channel_id": None,
    "afk_timeout": 300,
    "system_channel_id": None,
    "system_channel_flags": 0,
    "widget_enabled": False,
    "widget_channel_id": None,
    "verification_level": 0,
    "default_message_notifications": 0,
    "mfa_level": 0,
    "explicit_content_filter": 0,
    "max_presences": None,
    "max_members": 500000,
    "max_stage_video_channel_users": 50,
    "max_video_channel_users": 25,
    "vanity_url_code": None,
    "premium_tier": 0,
    "premium_subscription_count": 0,
    "preferred_locale": "en-US",
    "rules_channel_id": None,
    "safety_alerts_channel_id": None,
    "public_updates_channel_id": None,
    "premium_progress_bar_enabled": False,
    "nsfw": False,
    "nsfw_level": 0,
    "emojis": [],
    "stickers": [],
    "incidents_data": None,
}
