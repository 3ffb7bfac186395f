"""`/leaderboard submit`: promise an answer first, then look, ask, send and follow."""

import asyncio
from typing import NamedTuple

import discord
from discord import app_commands

from discord_edge.bot.asking import Here, fail, user_of
from discord_edge.bot.menus import OPTIONS_MAX, GpuMenu
from discord_edge.bot.original import home, submit
from discord_edge.domain import wishes
from discord_edge.domain.wishes import Board, Wish
from shared.errors import Failed, Refused

READ_S_MAX = 10.0
MODES = {
    "test": "Run the tests of a leaderboard on your file",
    "benchmark": "Time your file, without being ranked",
    "ranked": "Submit your file to a leaderboard",
}
TOLD = {
    "script": "Your file",
    "leaderboard_name": "The leaderboard, if your file does not name it",
    "gpu": "GPU types, apart by commas",
}
Choices = list[app_commands.Choice[str]]
Case = app_commands.Range[int, 1, 1000]


class Options(NamedTuple):
    """What is said beside the file; what is not, the file may say."""

    leaderboard: str | None
    gpu: str | None
    case: int | None = None


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
        for mode in MODES:
            self._add(mode)
        self.add_command(profile)

    def _add(self, mode: str) -> None:
        @app_commands.command(name=mode, description=MODES[mode])
        @app_commands.describe(**TOLD)
        @app_commands.autocomplete(leaderboard_name=boards, gpu=gpus)
        async def given(
            here: Here,
            script: discord.Attachment,
            leaderboard_name: str | None = None,
            gpu: str | None = None,
        ) -> None:
            await _submit(here, mode, script, Options(leaderboard_name, gpu))

        self.add_command(given)


@app_commands.command(name="profile", description="Profile your file")
@app_commands.describe(**TOLD, case="The only timed case to profile, from 1 on")
@app_commands.autocomplete(leaderboard_name=boards, gpu=gpus)
async def profile(
    here: Here,
    script: discord.Attachment,
    leaderboard_name: str | None = None,
    gpu: str | None = None,
    case: Case | None = None,
) -> None:
    """Profile a file, with one case if that is said."""
    await _submit(here, "profile", script, Options(leaderboard_name, gpu, case))


async def _submit(here: Here, mode: str, script: discord.Attachment, options: Options) -> None:
    """Promise an answer, then do what was asked, or say why not."""
    await here.response.defer(ephemeral=True, thinking=True)
    try:
        await _do(here, mode, script, options)
    except (Refused, Failed) as error:
        await fail(here, error)


async def _do(here: Here, mode: str, script: discord.Attachment, options: Options) -> None:
    _check_place(here)
    wishes.check_attachment(script.filename, script.size)
    source = await _read(script)
    slug = wishes.agreed(options.leaderboard, source) or await _which(here)
    if not slug:
        return
    board = await here.client.boards.of(user_of(here), slug)
    chosen = wishes.chosen(options.gpu, source, board) or await _asked(here, board)
    if not chosen:
        return
    case = options.case or 0
    await submit(here, Wish(board.slug, mode, chosen, script.filename, source, case))


def _check_place(here: Here) -> None:
    allowed = here.client.places
    if allowed and home(here) not in allowed:
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
    menu = GpuMenu(here, offered, 1, "Leaderboards")
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
    menu = GpuMenu(here, board.gpus)
    await here.edit_original_response(
        content=f"Where should `{board.slug}` run your file? Choose within two minutes.", view=menu
    )
    chosen = await menu.answered()
    if not chosen:
        said = "Nothing was chosen within two minutes, so nothing is submitted."
        await here.edit_original_response(content=said, view=menu)
    return chosen
