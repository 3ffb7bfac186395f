"""The commands of `/leaderboard` that show rankings, queues and help, with their pages."""

import re
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

import discord
from discord import app_commands

from discord_edge.bot.dialogs import GpuMenu
from discord_edge.bot.interactions import (
    BotInteraction,
    Choices,
    Commands,
    name_choices,
    reply,
    reply_on_error,
    user_api,
)
from discord_edge.bot.messages import build_embed
from discord_edge.bot.staff import platform_roles, reply_with_lines
from discord_edge.leaderboards.tables import (
    Page,
    leaderboards_page,
    other_versions_text,
    personal_page,
    queue_line,
    rank_labels,
    ranking_page,
)
from discord_edge.platform_api import PlatformApi
from discord_edge.submissions.commands import complete_gpus, complete_leaderboards
from discord_edge.submissions.report_buttons import fetch_own_history
from discord_edge.wording import CHOICES_MAX, CONTENT_MAX, escaped, match_names
from shared.api.leaderboards import Leaderboard, LeaderboardMembership, Leaderboards
from shared.api.problems import Problem, Problems
from shared.api.queues import IntakeStatus, QueueOfGpu
from shared.api.submissions import OwnSubmissions
from shared.errors import Failed, Refused

Command = app_commands.Command[Any, ..., Any]
BACK, NEXT = "◀", "▶"
ENTRIES_MAX = 100
# Separates a GPU type from a problem version in the id of a button.
AT_VERSION = "@"
# Discord's limit for the id of a button.
ID_LENGTH_MAX = 100


async def complete_topics(interaction: BotInteraction, typed: str) -> Choices:
    """Complete the names of commands and groups."""
    commands = _visible_commands(interaction)
    names = {command.qualified_name for command in commands}
    names |= {command.parent.qualified_name for command in commands if command.parent is not None}
    matches = match_names(typed.lstrip("/"), sorted(names))
    return name_choices(matches)


@app_commands.command(name="help", description="What the bot can do")
@app_commands.autocomplete(topic=complete_topics)
async def help_(interaction: BotInteraction, topic: str | None = None) -> None:
    """List all commands, a group of commands, or the options of one command."""
    await interaction.response.defer(ephemeral=True, thinking=True)
    name = " ".join((topic or "").strip().lstrip("/").lower().split())
    commands = [
        command
        for command in _visible_commands(interaction)
        if not name or f"{command.qualified_name} ".startswith(f"{name} ")
    ]
    if not commands:
        reason = f"there is no command `{escaped(name, 60)}`: `/leaderboard help` lists them all"
        raise Refused("unknown_topic", reason, "topic")
    lines = [line for command in commands for line in _lines(command, has_options=bool(name))]
    await reply_with_lines(interaction, lines, "There are no commands.")


def _visible_commands(interaction: BotInteraction) -> list[Command]:
    """Return the commands that Discord shows to the user."""
    has_role = bool(platform_roles(interaction))
    tree, guild = interaction.client.tree, discord.Object(interaction.client.settings.guild)
    return [
        command
        for command in tree.walk_commands(guild=guild)
        if isinstance(command, app_commands.Command) and (has_role or _is_public(command))
    ]


def _is_public(command: Command) -> bool:
    group = command.root_parent
    return group is None or group.default_permissions is None


def _lines(command: Command, *, has_options: bool) -> Iterator[str]:
    yield f"`/{command.qualified_name}` {escaped(command.description)}"
    if has_options:
        for option in command.parameters:
            optional = "" if option.required else ", optional"
            choices = ", ".join(choice.name for choice in option.choices)
            yield f"- `{option.display_name}`{optional}" + (f": {choices}" if choices else "")


@app_commands.command(name="ping", description="Whether the bot answers")
async def ping(interaction: BotInteraction) -> None:
    """Show the latencies of Discord and of the platform."""
    began = time.monotonic()
    await interaction.response.defer(ephemeral=True, thinking=True)
    text = f"Pong: Discord in {1000 * interaction.client.latency:.0f} ms, "
    try:
        await interaction.client.api.get(IntakeStatus, "intake")
        text += f"the platform in {1000 * (time.monotonic() - began):.0f} ms."
    except (Refused, Failed):
        text += "the platform does not answer at the moment."
    await reply(interaction, text)


@app_commands.command(name="list", description="All leaderboards")
async def list_(
    interaction: BotInteraction, state: Literal["active", "ended", "all"] = "active"
) -> None:
    """List the leaderboards."""
    await _show_page(interaction, "list", state, "")


@app_commands.command(name="show", description="The ranking of a leaderboard")
@app_commands.autocomplete(leaderboard_name=complete_leaderboards, gpu=complete_gpus)
@app_commands.describe(version="The version of the problem; by default the newest")
async def show(
    interaction: BotInteraction,
    leaderboard_name: str,
    gpu: str | None = None,
    version: app_commands.Range[int, 1] | None = None,
) -> None:
    """Show a ranking."""
    await _show_page(interaction, "show", leaderboard_name, gpu, version)


@app_commands.command(name="show-personal", description="Your ranked submissions")
@app_commands.autocomplete(leaderboard_name=complete_leaderboards, gpu=complete_gpus)
async def personal(
    interaction: BotInteraction, leaderboard_name: str, gpu: str | None = None
) -> None:
    """Show the user's own ranked submissions."""
    await _show_page(interaction, "own", leaderboard_name, gpu)


@app_commands.command(name="join", description="Join a closed leaderboard with an invite")
async def join(interaction: BotInteraction, code: app_commands.Range[str, 1, 100]) -> None:
    """Become a member of closed leaderboards."""
    await interaction.response.defer(ephemeral=True, thinking=True)
    api = user_api(interaction)
    joined = await api.request(LeaderboardMembership, "POST", "user", "join", code=code)
    slugs = ", ".join(f"`{slug}`" for slug in joined.leaderboards)
    await reply(interaction, f"You can now see {slugs}.")


@app_commands.command(name="queue", description="The queues and your open submissions")
@app_commands.autocomplete(gpu=complete_gpus)
async def queue(interaction: BotInteraction, gpu: str | None = None) -> None:
    """Show the queues and the user's own open submissions."""
    await interaction.response.defer(ephemeral=True, thinking=True)
    gpus = [gpu] if gpu else interaction.client.leaderboards.gpus(None)[:CHOICES_MAX]
    api = user_api(interaction)
    lines = [queue_line(name, await api.get(QueueOfGpu, "queue", name)) for name in gpus]
    lines += await _open_submission_lines(interaction)
    await reply(interaction, "\n".join(lines)[:CONTENT_MAX] or "The queues are empty.")


async def _open_submission_lines(interaction: BotInteraction) -> list[str]:
    api = user_api(interaction)
    try:
        page = await api.get(OwnSubmissions, "me", "submissions", state="open", limit=10)
    except Refused:
        return []
    return [
        f"yours: **#{submission.number}** {escaped(submission.problem)} · "
        f"{escaped(submission.gpu)} · {submission.state}"
        for submission in page.items
    ]


async def fetch_page(
    interaction: BotInteraction, kind: str, slug: str, gpu: str, number: int
) -> Page:
    """Build a page from the current data, with its time. Raises `Refused` and `Failed`."""
    api = user_api(interaction)
    if kind == "list":
        page = await _leaderboards_page(interaction, api, slug, number)
    elif kind == "show":
        page = await _ranking_page(interaction, api, slug, gpu, number)
    else:
        submissions = await fetch_own_history(api, slug, gpu)
        board = await api.get(Leaderboard, "leaderboards", slug, gpu, limit=ENTRIES_MAX)
        ranks = rank_labels(board.items)
        page = personal_page(f"Yours: {slug} on {gpu}", submissions, number, ranks)
    return replace(page, card=replace(page.card, at=time.time()))


async def _leaderboards_page(
    interaction: BotInteraction, api: PlatformApi, state: str, number: int
) -> Page:
    """List the leaderboards that a user may see, with the user's own best scores."""
    # The cache contains public leaderboards only.
    visible = await api.get(Problems, "problems", state="all", limit=ENTRIES_MAX)
    problems = interaction.client.leaderboards.known | {
        problem.slug: problem for problem in visible.items
    }
    matching = [
        problem for _, problem in sorted(problems.items()) if state in ("all", problem.state)
    ]
    versions = {problem.slug: problem.problem_version for problem in visible.items}
    best = {
        (board.problem, board.gpu): board.own_us
        for board in (await api.get(Leaderboards, "leaderboards")).items
        if board.own_us is not None and board.problem_version == versions.get(board.problem)
    }
    paused = (await interaction.client.api.get(IntakeStatus, "intake")).paused
    return leaderboards_page(matching, number, paused or "", best)


async def _ranking_page(
    interaction: BotInteraction, api: PlatformApi, slug: str, gpu: str, number: int
) -> Page:
    """Show a ranking, with the changes since a week ago if they are known."""
    gpu, _, version_text = gpu.partition(AT_VERSION)
    version = {"version": int(version_text)} if version_text.isdecimal() else {}
    path = ("leaderboards", slug, gpu)
    board = await api.get(Leaderboard, *path, limit=ENTRIES_MAX, **version)
    # Only after this read succeeded, which shows that the user may see the leaderboard.
    before = {} if version else await interaction.client.trends.past_ranks(api, slug, gpu)
    title = f"{slug} on {gpu}" + (f", version {version_text}" if version else "")
    page = ranking_page(title, board.items, number, f"event {board.as_of}", before)
    if board.items or not board.other_versions:
        return page
    body = other_versions_text(board.problem_version, board.other_versions)
    return replace(page, card=replace(page.card, body=body))


def page_buttons(kind: str, slug: str, gpu: str, page: Page) -> discord.ui.View | None:
    """Return the buttons of a page; None for a single page or names too long for an id."""
    if page.count == 1 or len(f"page:{kind}:{slug}:{gpu}:{page.count}") > ID_LENGTH_MAX:
        return None
    view = discord.ui.View(timeout=None)
    for label, number in ((BACK, page.number - 1), (NEXT, page.number + 1)):
        is_off = not 0 <= number < page.count
        view.add_item(PageButton(f"{kind}:{slug}:{gpu}", number, label, is_off=is_off))
    return view


class PageButton(
    discord.ui.DynamicItem[discord.ui.Button[discord.ui.View]],
    template=r"page:(?P<where>(?:list|show|own):[a-z0-9_.-]*:[A-Za-z0-9_.@-]*):(?P<number>-?\d+)",
):
    """A button whose id names the page that it leads to."""

    def __init__(self, where: str, number: int, label: str = "…", *, is_off: bool = False) -> None:
        self.where, self.number = where, number
        custom_id = f"page:{where}:{number}"
        super().__init__(discord.ui.Button(label=label, custom_id=custom_id, disabled=is_off))

    @classmethod
    async def from_custom_id(
        cls,
        interaction: discord.Interaction[Any],  # noqa: ARG003 - the library's
        item: discord.ui.Item[Any],  # noqa: ARG003
        match: re.Match[str],
    ) -> "PageButton":
        """Restore the button of a message, however old."""
        return cls(match["where"], int(match["number"]))

    async def callback(self, interaction: BotInteraction) -> None:  # type: ignore[override]
        """Turn the page."""
        async with reply_on_error(interaction):
            await interaction.response.defer()
            kind, slug, gpu = self.where.split(":")
            page = await fetch_page(interaction, kind, slug, gpu, self.number)
            view = page_buttons(kind, slug, gpu, page)
            await interaction.edit_original_response(embed=build_embed(page.card), view=view)


async def _show_page(
    interaction: BotInteraction, kind: str, slug: str, gpu: str | None, version: int | None = None
) -> None:
    """Show the first page, after asking for one of several GPU types."""
    await interaction.response.defer(ephemeral=True, thinking=True)
    slug = slug.strip().lower()
    if gpu is None:
        problem = await interaction.client.leaderboards.get(user_api(interaction), slug)
        gpus = problem.gpus
        gpu = gpus[0] if len(gpus) == 1 else await _choose_gpu(interaction, problem)
        if not gpu:
            return
    if version is not None:
        gpu = f"{gpu}{AT_VERSION}{version}"
    page = await fetch_page(interaction, kind, slug, gpu, 0)
    view = page_buttons(kind, slug, gpu, page)
    await interaction.edit_original_response(content=None, embed=build_embed(page.card), view=view)


async def _choose_gpu(interaction: BotInteraction, problem: Problem) -> str:
    """Ask for a GPU type; "" if the user does not answer."""
    if not problem.gpus:
        raise Refused("unknown_gpu", f"`{problem.slug}` has no GPU type")
    menu = GpuMenu(interaction, problem.gpus, choices_max=1)
    late_text = "Nothing was chosen within two minutes."
    return "".join(await menu.ask(f"Which GPU type of `{problem.slug}`?", late_text))


COMMANDS: Commands = (list_, show, personal, join, queue, help_)
