"""What the small bot shows: pages, a menu of GPUs, a modal."""

import io
import re
from typing import Any, cast

import discord
from discord import app_commands

BOARDS = ("grayscale_v1", "matmul_v1", "sort_v1", "sort_v2")
GPUS = ("A100", "H100", "MI300")
ROWS, PER_PAGE = 25, 10
STEPS = 3

Here = discord.Interaction[Any]


async def boards(_: Here, typed: str) -> list[app_commands.Choice[str]]:
    """What fits what is typed."""
    found = [one for one in BOARDS if typed.lower() in one]
    return [app_commands.Choice(name=one, value=one) for one in found]


def page(board: str, number: int) -> tuple[discord.Embed, discord.ui.View]:
    """One page of a ranking; its buttons say where they lead."""
    last = (ROWS - 1) // PER_PAGE
    first = number * PER_PAGE
    rows = range(first, min(first + PER_PAGE, ROWS))
    embed = discord.Embed(title=board, description="\n".join(f"{n + 1}. user{n}" for n in rows))
    embed.set_footer(text=f"Page {number + 1}/{last + 1}")
    view = discord.ui.View(timeout=None)
    view.add_item(PageButton(board, number - 1, "◀", is_off=number == 0))
    view.add_item(PageButton(board, number + 1, "▶", is_off=number == last))
    return embed, view


class PageButton(
    discord.ui.DynamicItem[discord.ui.Button[discord.ui.View]],
    template=r"page:(?P<board>\w+):(?P<number>-?\d+)",
):
    """A button that works after a restart, for all it needs is in its id."""

    def __init__(self, board: str, number: int, label: str = "…", *, is_off: bool = False) -> None:
        self.board, self.number = board, number
        custom_id = f"page:{board}:{number}"
        super().__init__(discord.ui.Button(label=label, custom_id=custom_id, disabled=is_off))

    @classmethod
    async def from_custom_id(
        cls,
        here: Here,  # noqa: ARG003 - the library's
        item: discord.ui.Item[Any],  # noqa: ARG003
        match: re.Match[str],
    ) -> "PageButton":
        return cls(match["board"], int(match["number"]))

    async def callback(self, here: Here) -> None:
        embed, view = page(self.board, self.number)
        await here.response.edit_message(embed=embed, view=view)


class GpuMenu(discord.ui.View):
    """Where to run; then a private thread with what becomes of it."""

    def __init__(self, board: str, mode: str, source: bytes) -> None:
        super().__init__(timeout=120)
        self.board, self.mode, self.source = board, mode, source
        menu = cast("discord.ui.Select[Any]", self.menu)
        menu.options = [discord.SelectOption(label=one, value=one) for one in GPUS]
        menu.max_values = len(GPUS)

    @discord.ui.select(placeholder="GPUs")
    async def menu(self, here: Here, select: discord.ui.Select[Any]) -> None:
        self.stop()
        chosen = ", ".join(select.values)
        await here.response.edit_message(content=f"Submitting to {chosen}", view=None)
        try:
            await self._run(here, chosen)
        except discord.HTTPException as error:
            await here.edit_original_response(content=f"No thread: {error.code}")

    async def _run(self, here: Here, chosen: str) -> None:
        parent = here.channel
        assert isinstance(parent, discord.TextChannel)
        thread = await parent.create_thread(
            name=f"{self.board} {self.mode}", auto_archive_duration=1440, invitable=False
        )
        await thread.add_user(here.user)
        status = await thread.send(f"{here.user.mention}: queued on {chosen}")
        for step in range(STEPS):
            await status.edit(content=f"step {step + 1} of {STEPS}")
        report = discord.File(io.BytesIO(self.source), filename="report.txt")
        await thread.send(embed=discord.Embed(title="Report"), file=report)
        await here.edit_original_response(content=f"Done: {thread.mention}")


class Naming(discord.ui.Modal, title="A new leaderboard"):
    """Its name, and what it is about."""

    name: discord.ui.TextInput["Naming"] = discord.ui.TextInput(label="Name", max_length=40)
    about: discord.ui.TextInput["Naming"] = discord.ui.TextInput(
        label="About", style=discord.TextStyle.paragraph, required=False
    )

    async def on_submit(self, here: Here) -> None:
        await here.response.send_message(f"Created `{self.name.value}`.", ephemeral=True)
