"""The places of a server that the bot makes where they are missing; found by id, never by name."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import discord

from discord_edge.bot.drawing import reaching
from discord_edge.service.public import Begun, Ledger
from shared.errors import Refused

CATEGORY, CENTRAL, GENERAL, SUBMISSIONS = "Leaderboards", "central", "general", "submissions"
PARTICIPANT = "Leaderboard Participant"
ROLES = {
    "Leaderboard Admin": 0x9B59B6,
    "Leaderboard Creator": 0x3498DB,
    PARTICIPANT: 0xEB459F,
}
Made = discord.abc.GuildChannel | discord.Role
Make = Callable[[], Awaitable[Made]]
Look = Callable[[], Awaitable[Sequence[Made]]]
SERVERS_ERROR = 500
WHY = "Warpboard: what its leaderboards need"

_log = logging.getLogger(__name__)


class Places(NamedTuple):
    """The ids of what is there; who wants to hear of openings has the role, if there is one."""

    central: int
    submissions: int
    participants: int | None


@dataclass(frozen=True)
class SettingUp:
    """Looks for what a server needs, and makes what is missing."""

    guild: discord.Guild
    ledger: Ledger

    async def places(self) -> Places:
        """Everything, made if need be. Errors: Refused where the bot may not; Failed."""
        guild = self.guild
        category = await self._channel(
            CATEGORY, lambda: guild.create_category(CATEGORY, reason=WHY)
        )
        parent = guild.get_channel(category)
        under = parent if isinstance(parent, discord.CategoryChannel) else None

        def text(name: str) -> Make:
            return lambda: guild.create_text_channel(name, category=under, reason=WHY)

        central = await self._channel(
            CENTRAL, lambda: guild.create_forum(CENTRAL, category=under, reason=WHY)
        )
        await self._channel(GENERAL, text(GENERAL))
        submissions = await self._channel(SUBMISSIONS, text(SUBMISSIONS))
        return Places(central, submissions, await self._roles())

    async def _channel(self, name: str, make: Make) -> int:
        key = f"channel:{self.guild.id}:{name}"
        held = await self.ledger.made(key)
        if held is not None and self.guild.get_channel(int(held)) is not None:
            return int(held)
        return await self._made(key, name, make, self.guild.fetch_channels)

    async def _roles(self) -> int | None:
        """The roles; without the permission there are none, and the rest goes on."""
        try:
            found = {name: await self._role(name) for name in ROLES}
        except Refused as refused:
            _log.warning("no roles are made: give the bot Manage Roles (%s)", refused.reason)
            return None
        return found[PARTICIPANT]

    async def _role(self, name: str) -> int:
        key, guild = f"role:{self.guild.id}:{name}", self.guild
        held = await self.ledger.made(key)
        if held is not None and guild.get_role(int(held)) is not None:
            return int(held)
        colour = discord.Colour(ROLES[name])
        return await self._made(
            key,
            name,
            lambda: guild.create_role(name=name, colour=colour, reason=WHY),
            guild.fetch_roles,
        )

    async def _made(self, key: str, name: str, make: Make, look: Look) -> int:
        """The id of something new. Errors: Refused where the bot may not; Failed."""
        room = str(self.guild.id)
        begun = await self.ledger.begun(key, room)
        with reaching():
            made = None
            if begun is not None and begun.text:
                # An answer that was lost may have made it; what was there before is not ours.
                since = [one for one in await look() if one.id > int(begun.after)]
                made = next((one for one in since if one.name == name), None)
            else:
                newest = max((one.id for one in await look()), default=0)
                await self.ledger.begin(key, room, Begun(name, str(newest)))
            try:
                made = made or await make()
            except discord.HTTPException as error:
                if error.status < SERVERS_ERROR:
                    # Nothing was made, so what somebody makes by hand now is theirs.
                    await self.ledger.begin(key, room, Begun("", "0"))
                raise
        await self.ledger.keep(key, str(made.id))
        _log.info("%s is made: %d", key, made.id)
        return made.id
