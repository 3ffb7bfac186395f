"""`/leaderboard …` and `/ping`: what participants look at, and what they end."""

import time
from collections.abc import Sequence
from typing import Literal

from discord import app_commands

from discord_edge.bot import problems
from discord_edge.bot.asking import Here, say, user_of
from discord_edge.bot.drawing import embed, files
from discord_edge.bot.helping import help_
from discord_edge.bot.menus import GpuMenu
from discord_edge.bot.own import mine
from discord_edge.bot.paging import AT_VERSION, buttons, looked_up
from discord_edge.bot.submitting import Submit, all_boards, gpus
from discord_edge.domain import tables, wishes
from discord_edge.domain.comparison import compared
from discord_edge.domain.report import fitted
from discord_edge.domain.status import Status
from discord_edge.domain.wording import CONTENT_MAX, escaped
from discord_edge.service.reporting import reported
from shared.errors import Failed, Refused
from shared.telling.answers import Submission, read
from shared.telling.progress import news

OWN_MAX = 50
Numbers = list[app_commands.Choice[int]]


async def own(here: Here, typed: str) -> Numbers:
    """One's own submissions, the newest first."""
    return await _own(here, typed, {})


async def own_live(here: Here, typed: str) -> Numbers:
    """Those of one's own that are not over."""
    return await _own(here, typed, {"state": "open"})


async def _own(here: Here, typed: str, query: dict[str, str]) -> Numbers:
    path = ("me", "submissions")
    answer = await here.client.memory.get(user_of(here), *path, limit=OWN_MAX, **query)
    return [
        app_commands.Choice(
            name=f"#{one['number']} {one['problem']} {one['mode']} {one['gpu']}"[:100],
            value=int(one["number"]),
        )
        for one in answer.get("items", [])
        if typed.lstrip("#").lower() in f"{one['number']} {one['problem']}"
    ][: wishes.GPUS_MAX]


@app_commands.command(name="ping", description="Whether the bot is there")
async def ping(here: Here) -> None:
    """How long a request takes there and back."""
    began = time.monotonic()
    await here.response.defer(ephemeral=True, thinking=True)
    said = f"There: Discord in {1000 * here.client.latency:.0f} ms, "
    try:
        await here.client.api.get(None, "intake")
        said += f"the platform in {1000 * (time.monotonic() - began):.0f} ms."
    except (Refused, Failed):
        said += "the platform does not answer at the moment."
    await say(here, said)


class Leaderboards(app_commands.Group):
    """The commands of participants."""

    def __init__(self) -> None:
        super().__init__(name="leaderboard", description="Submit and look", guild_only=True)
        self.add_command(Submit())
        for one in (*problems.COMMANDS, help_):
            self.add_command(one)

    @app_commands.command(name="list", description="Which leaderboards there are")
    async def list_(self, here: Here, state: Literal["active", "ended", "all"] = "active") -> None:
        """The leaderboards."""
        await _page(here, "list", state, "")

    @app_commands.command(name="show", description="Who is ahead on a leaderboard")
    @app_commands.autocomplete(leaderboard_name=all_boards, gpu=gpus)
    @app_commands.describe(version="Of the problem; the newest if not given")
    async def show(
        self,
        here: Here,
        leaderboard_name: str,
        gpu: str | None = None,
        version: app_commands.Range[int, 1] | None = None,
    ) -> None:
        """A ranking."""
        await _page(here, "show", leaderboard_name, gpu, version)

    @app_commands.command(name="show-personal", description="Your ranked submissions")
    @app_commands.autocomplete(leaderboard_name=all_boards, gpu=gpus)
    async def personal(self, here: Here, leaderboard_name: str, gpu: str | None = None) -> None:
        """One's own."""
        await _page(here, "own", leaderboard_name, gpu)

    @app_commands.command(name="get-submission", description="One of your submissions, whole")
    @app_commands.autocomplete(submission_id=own)
    async def get_submission(self, here: Here, submission_id: int) -> None:
        """One submission."""
        await here.response.defer(ephemeral=True, thinking=True)
        user = user_of(here)
        answer = await mine(here, submission_id)
        found = read(answer, Submission)
        if not found.is_over:
            where = Status(
                found.number, found.problem, found.mode, found.gpu, now=news(found).sentence
            )
            await say(here, where.text)
            return
        card = fitted(await reported(here.client.api, user, answer), here.filesize_limit)
        attached = files(card)
        try:
            source = await here.client.api.file(
                user, f"/v1/submissions/{submission_id}?source=true"
            )
        except (Refused, Failed):
            source = b""
        attached += problems.source_of(source, found.name)
        await here.edit_original_response(embed=embed(card), attachments=attached)

    @app_commands.command(name="cancel", description="End one of your submissions")
    @app_commands.autocomplete(submission_id=own_live)
    async def cancel(self, here: Here, submission_id: int) -> None:
        """End one."""
        await here.response.defer(ephemeral=True, thinking=True)
        await mine(here, submission_id)
        path = ("submissions", submission_id, "cancel")
        await here.client.api.act(user_of(here), str(here.id), *path)
        await say(here, f"Submission **#{submission_id}** is being cancelled.")

    @app_commands.command(name="compare", description="How one submission differs from another")
    @app_commands.autocomplete(a=own, b=own)
    async def compare(self, here: Here, a: int, b: int) -> None:
        """The ratio of each case, and the difference of the sources as a file."""
        await here.response.defer(ephemeral=True, thinking=True)
        found = await here.client.api.get(user_of(here), "compare", a=a, b=b)
        card = compared(found)
        await here.edit_original_response(embed=embed(card), attachments=files(card))

    @app_commands.command(name="join", description="Join a closed leaderboard by an invite")
    async def join(self, here: Here, code: app_commands.Range[str, 1, 100]) -> None:
        """Become a member."""
        await here.response.defer(ephemeral=True, thinking=True)
        said = await here.client.api.act(user_of(here), str(here.id), "user", "join", code=code)
        names = ", ".join(f"`{one}`" for one in said["leaderboards"])
        await say(here, f"You see {names} now.")

    @app_commands.command(name="queue", description="What waits, and who works")
    @app_commands.autocomplete(gpu=gpus)
    async def queue(self, here: Here, gpu: str | None = None) -> None:
        """The queues."""
        await here.response.defer(ephemeral=True, thinking=True)
        asked = [gpu] if gpu else here.client.boards.gpus(None)[: wishes.GPUS_MAX]
        user = user_of(here)
        lines = [tables.queue(one, await here.client.api.get(user, "queue", one)) for one in asked]
        lines += await _places(here)
        await say(here, "\n".join(lines)[:CONTENT_MAX] or "Nothing waits.")


async def _places(here: Here) -> Sequence[str]:
    """Where one's own are that are not over."""
    try:
        path = ("me", "submissions")
        answer = await here.client.api.get(user_of(here), *path, state="open", limit=10)
    except Refused:
        return []
    return [
        f"yours: **#{one['number']}** {escaped(one['problem'])} · {escaped(one['gpu'])} · "
        f"{one['state']}"
        for one in answer["items"]
    ]


async def _page(
    here: Here, what: str, slug: str, gpu: str | None, version: int | None = None
) -> None:
    """Answer with the first page; of several GPU types one is asked for."""
    await here.response.defer(ephemeral=True, thinking=True)
    slug = slug.strip().lower()
    if gpu is None:
        board = await here.client.boards.of(user_of(here), slug)
        gpu = board.gpus[0] if len(board.gpus) == 1 else await _one_of(here, board)
        if not gpu:
            return
    if version is not None:
        gpu = f"{gpu}{AT_VERSION}{version}"
    page = await looked_up(here, what, slug, gpu, 0)
    view = buttons(what, slug, gpu, page)
    await here.edit_original_response(content=None, embed=embed(page.card), view=view)


async def _one_of(here: Here, board: wishes.Board) -> str:
    if not board.gpus:
        raise Refused("unknown_gpu", f"`{board.slug}` has no GPU type")
    menu = GpuMenu(here, board.gpus, most=1)
    said = f"Which GPU type of `{board.slug}`?"
    await here.edit_original_response(content=said, view=menu)
    chosen = await menu.answered()
    if not chosen:
        said = "Nothing was chosen within two minutes."
        await here.edit_original_response(content=said, view=menu)
        return ""
    return chosen[0]
