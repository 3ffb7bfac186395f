"""Who may use commands of authors and operators: by a role on the server, their second key."""

import asyncio
import io
from collections.abc import Sequence
from typing import Any

import discord
from discord import app_commands

from discord_edge.bot.asking import Here, fail, say
from discord_edge.domain.wishes import matching
from discord_edge.domain.wording import CONTENT_MAX
from discord_edge.service.ports import User
from shared.errors import Refused
from shared.telling.answers import Answer

# As long as the name of a problem may be.
NAME_LENGTH_MAX = 95
BOARDS_PAGE, BOARDS_PAGES_MAX = 100, 5
# Why somebody looked at what is not for everybody.
LOOKED = "looked at on Discord"
Reason = app_commands.Range[str, 1, 400]
Named = app_commands.Range[str, 1, NAME_LENGTH_MAX]
Number = app_commands.Range[int, 1, 2**53 - 1]


def hidden() -> discord.Permissions:
    """What somebody needs on the server to be shown operators' commands."""
    return discord.Permissions(manage_guild=True)


def roles_of(here: Here) -> tuple[str, ...]:
    """The platform's roles that who asks shows by their roles on the server."""
    if not isinstance(here.user, discord.Member):
        return ()
    known = here.client.staff
    return tuple(sorted({known[one.id] for one in here.user.roles if one.id in known}))


def staff_of(here: Here, *needed: str) -> User:
    """Who asks, with their roles. Errors: Refused for who has none of those that it needs."""
    held = roles_of(here)
    if not set(held) & set(needed):
        what = f"this is for who has the role of a {' or '.join(needed)} on this server"
        raise Refused("role_missing", what)
    return User(here.user.id, here.user.name, held)


async def begun(here: Here, *needed: str) -> User:
    """Promise an answer, then see who asks. Errors: Refused."""
    await here.response.defer(ephemeral=True, thinking=True)
    return staff_of(here, *needed)


async def done(here: Here, user: User, method: str, *path: str | int, **said: object) -> Answer:
    """What the platform answers to what is done by this command. Errors: Refused; Failed."""
    return await here.client.api.do(user, method, *path, key=str(here.id), **said)


async def decided(here: Here, user: User, path: Sequence[str | int], **said: object) -> str:
    """What to add to an answer where nothing had to be done. Errors: Refused; Failed."""
    made = await done(here, user, "POST", *path, **said)
    return "" if made.get("event") else " It was so already."


async def acted(here: Here, user: User, target: str, reason: str) -> None:
    """Keep that somebody looked at what is not for everybody. Errors: Refused; Failed."""
    command = "discord /" + (here.command.qualified_name if here.command else "")
    said = {"command": command, "target": target, "reason": reason}
    await here.client.api.do(user, "POST", "admin", "acted", key=f"{here.id}-acted", **said)


async def told(here: Here, lines: Sequence[str], nothing: str) -> bool:
    """Answer with lines; what is too long for a message is a file. Whether anybody heard it."""
    text = "\n".join(lines) or nothing
    if len(text) <= CONTENT_MAX:
        return await say(here, text)
    file = discord.File(io.BytesIO(text.encode()), "answer.txt")
    return await say(here, f"{len(lines)} lines: they are in the file.", files=[file])


async def any_board(here: Here, typed: str) -> list[app_commands.Choice[str]]:
    """The leaderboards that fit what is typed, those too that not everybody may see."""
    user = User(here.user.id, here.user.name, roles_of(here))
    query: dict[str, str | int] = {"state": "all", "limit": BOARDS_PAGE}
    names = set(here.client.boards.known)
    for _ in range(BOARDS_PAGES_MAX):
        page = await here.client.memory.get(user, "problems", **query)
        names |= {str(one["slug"]) for one in page.get("items", [])}
        if not page.get("next_cursor"):
            break
        query["cursor"] = page["next_cursor"]
    return [app_commands.Choice(name=one, value=one) for one in matching(typed, sorted(names))]


async def participant_of(here: Here, user: discord.User | None, name: str | None) -> str:
    """Who is meant, as the platform calls them. Errors: Refused; Failed."""
    if (user is None) == (name is None):
        raise Refused("invalid_request", "say one of `user` and `participant`", "user")
    if name is not None:
        return name.strip().lower()
    assert user is not None, "one of them was said"
    try:
        return str((await here.client.api.get(User(user.id), "me"))["name"])
    except Refused as refused:
        if refused.code == "missing_credential":
            what = "they never did anything here, so the platform does not know them"
            raise Refused("unknown_participant", what, "user") from refused
        raise


class _Answer(discord.ui.Button["Question"]):
    def __init__(self, label: str, *, is_yes: bool) -> None:
        style = discord.ButtonStyle.danger if is_yes else discord.ButtonStyle.secondary
        super().__init__(label=label, style=style)
        self.is_yes = is_yes

    async def callback(self, here: discord.Interaction[Any]) -> None:
        assert self.view is not None, "a button is on its view"
        await self.view.picked(here, is_yes=self.is_yes)


class Question(discord.ui.View):
    """Yes or no, from who asked alone; no answer in time is no."""

    def __init__(self, owner: int, yes: str, no: str, wait_s: float) -> None:
        super().__init__(timeout=wait_s)
        self.owner, self.is_yes, self.is_late = owner, False, False
        self._over = asyncio.Event()
        self.add_item(_Answer(yes, is_yes=True))
        self.add_item(_Answer(no, is_yes=False))

    async def picked(self, here: discord.Interaction[Any], *, is_yes: bool) -> None:
        """Take the answer."""
        self.is_yes = is_yes
        await here.response.edit_message(view=None)
        self._over.set()
        self.stop()

    async def interaction_check(self, here: discord.Interaction[Any]) -> bool:
        """Whether it is who asked."""
        return here.user.id == self.owner

    async def on_timeout(self) -> None:
        """Nobody answered."""
        self.is_late = True
        self._over.set()

    async def on_error(
        self, here: discord.Interaction[Any], error: Exception, _: discord.ui.Item[Any]
    ) -> None:
        """Say what went wrong."""
        await fail(here, error)

    async def answered(self) -> bool:
        """Whether it was yes."""
        await self._over.wait()
        return self.is_yes
