"""`/leaderboard submit`: promise an answer first, then look, ask, send and follow."""

import asyncio

import discord
from discord import app_commands

from discord_edge.bot.asking import Here, fail, say, user_of
from discord_edge.bot.consents import accepted
from discord_edge.bot.menus import OPTIONS_MAX, GpuMenu
from discord_edge.domain import wishes
from discord_edge.domain.report import headline
from discord_edge.domain.wishes import Board, Wish
from discord_edge.domain.wording import escaped
from discord_edge.service.ports import Post, Sent
from shared.errors import Failed, Refused
from shared.telling.answers import Submission

READ_S_MAX = 10.0
CONSENT = "consent_missing"
MODES = {
    "test": "Run the tests of a leaderboard on your file",
    "benchmark": "Time your file, without being ranked",
    "profile": "Profile your file",
    "ranked": "Submit your file to a leaderboard",
}
Choices = list[app_commands.Choice[str]]


async def boards(here: Here, typed: str) -> Choices:
    """The open leaderboards that fit what is typed."""
    return _choices(wishes.matching(typed, here.client.boards.open))


async def all_boards(here: Here, typed: str) -> Choices:
    """The leaderboards that fit what is typed, ended ones too."""
    return _choices(wishes.matching(typed, sorted(here.client.boards.known)))


async def gpus(here: Here, typed: str) -> Choices:
    """The GPU types of the leaderboard that is chosen already, in a list apart by commas."""
    slug = getattr(here.namespace, "leaderboard_name", None)
    return _choices(wishes.matching_gpus(typed, here.client.boards.gpus(slug)))


def _choices(names: list[str]) -> Choices:
    return [app_commands.Choice(name=one[:100], value=one[:100]) for one in names]


class Submit(app_commands.Group):
    """The modes, each with the same parameters."""

    def __init__(self) -> None:
        super().__init__(name="submit", description="Submit a file to a leaderboard")
        for mode, about in MODES.items():
            self._add(mode, about)

    def _add(self, mode: str, about: str) -> None:
        @app_commands.command(name=mode, description=about)
        @app_commands.describe(
            script="Your file",
            leaderboard_name="The leaderboard, if your file does not name it",
            gpu="GPU types, apart by commas",
        )
        @app_commands.autocomplete(leaderboard_name=boards, gpu=gpus)
        async def submit(
            here: Here,
            script: discord.Attachment,
            leaderboard_name: str | None = None,
            gpu: str | None = None,
        ) -> None:
            await here.response.defer(ephemeral=True, thinking=True)
            try:
                await _submit(here, mode, script, (leaderboard_name, gpu))
            except (Refused, Failed) as error:
                await fail(here, error)

        self.add_command(submit)


async def _submit(
    here: Here, mode: str, script: discord.Attachment, options: tuple[str | None, str | None]
) -> None:
    _check_place(here)
    wishes.check_attachment(script.filename, script.size)
    source = await _read(script)
    user = user_of(here)
    slug = wishes.agreed(options[0], source) or await _which(here)
    if not slug:
        return
    board = await here.client.boards.of(user, slug)
    chosen = wishes.chosen(options[1], source, board) or await _asked(here, board)
    if not chosen:
        return
    wish = Wish(board.slug, mode, chosen, script.filename, source)
    posts = await _sent(here, Sent(str(here.id), user, str(here.channel_id), wish))
    if posts:
        await _follow(here, wish, posts)


def _check_place(here: Here) -> None:
    allowed = here.client.places
    if allowed and here.channel_id not in allowed:
        where = " or ".join(f"<#{one}>" for one in sorted(allowed))
        raise Refused("wrong_channel", f"submit in {where}")


async def _read(script: discord.Attachment) -> bytes:
    """The file, at once: its address does not last. Errors: Refused."""
    try:
        async with asyncio.timeout(READ_S_MAX):
            return await script.read()
    except (discord.HTTPException, TimeoutError) as error:
        what = "Discord does not give the file out any more: attach it again"
        raise Refused("bad_file", what) from error


async def _which(here: Here) -> str:
    """The leaderboard that is chosen where none is named; "" when time is over, which is said."""
    offered = here.client.boards.open
    if not offered:
        raise Refused("unknown_leaderboard", "no leaderboard takes submissions in at the moment")
    menu = GpuMenu(here.user.id, offered, 1, "Leaderboards")
    rest = f" These are the first {OPTIONS_MAX}; name others as `leaderboard_name`."
    said = "For which leaderboard is this? Choose within two minutes."
    said += rest if len(offered) > OPTIONS_MAX else ""
    await here.edit_original_response(content=said, view=menu)
    chosen = await menu.answered()
    if not chosen:
        said = "Nothing was chosen within two minutes, so nothing is submitted."
        await here.edit_original_response(content=said, view=menu)
    return chosen[0] if chosen else ""


async def _asked(here: Here, board: Board) -> tuple[str, ...]:
    """What is chosen from the menu; nothing when time is over, which is said."""
    if not board.gpus:
        raise Refused("unknown_gpu", f"`{board.slug}` takes nothing in at the moment")
    menu = GpuMenu(here.user.id, board.gpus)
    await here.edit_original_response(
        content=f"Where should `{board.slug}` run your file? Choose within two minutes.", view=menu
    )
    chosen = await menu.answered()
    if not chosen:
        said = "Nothing was chosen within two minutes, so nothing is submitted."
        await here.edit_original_response(content=said, view=menu)
    return chosen


async def _sent(here: Here, sent: Sent) -> list[Post]:
    """What was taken in; who has to accept a text first is asked. Errors: Refused; Failed."""
    try:
        return await here.client.sending.send(sent)
    except Refused as refused:
        if refused.code != CONSENT:
            raise
    if not await accepted(here, sent.wish.problem):
        return []
    return await here.client.sending.send(sent)


async def _follow(here: Here, wish: Wish, posts: list[Post]) -> None:
    original = _Original(here, posts, wish)
    original.thread = await here.client.following.begin(posts, original.ended)
    await original.show()


class _Original:
    """The answer to the command, while its token lives: where to look, and how it ended."""

    def __init__(self, here: Here, posts: list[Post], wish: Wish) -> None:
        self._here, self._wish = here, wish
        self._ends: dict[int, str] = {}
        self._posts = posts
        self.thread: str | None = None

    async def ended(self, found: Submission) -> None:
        """Hear of an end."""
        self._ends[found.number] = headline(found)
        await self.show()

    async def show(self) -> None:
        """Say what is known."""
        if self._here.is_expired():
            return
        where = f" in <#{self.thread}>" if self.thread else ""
        lines = [f"Submitted {escaped(self._wish.name, 60)}: follow it{where}."]
        for post in self._posts:
            state = self._ends.get(post.number, "received")
            lines.append(f"**#{post.number}** {escaped(post.gpu)}: {escaped(state)}")
        await say(self._here, "\n".join(lines))
