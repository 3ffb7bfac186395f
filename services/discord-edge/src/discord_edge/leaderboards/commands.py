"""The commands of `/leaderboard` that show rankings, queues and help, with their pages."""

import re
import time
from dataclasses import replace
from typing import Any, Literal

import discord
from discord import app_commands

from discord_edge.bot.discord_py import BODY_MAX, build_embed
from discord_edge.bot.interactions import (
    BotButton,
    BotInteraction,
    CommandBot,
    Commands,
    CompletedName,
    GpuMenu,
    Gpus,
    Leaderboard,
    defer,
    platform_roles,
    reply,
    reply_with_card,
    reply_with_lines,
    user_api,
)
from discord_edge.leaderboards import tables
from discord_edge.submissions.reply import fetch_own_history
from discord_edge.wording import CHOICES_MAX, CONTENT_MAX, Card, escaped, match_names, split_gpus
from shared.api import leaderboards as api_models
from shared.api.problems import Problems
from shared.api.queues import IntakeStatus, QueueOfGpu
from shared.api.quotas import Balances
from shared.api.submissions import OwnSubmissions
from shared.errors import Failed, Refused
from shared.presentation.report_parts import open_submissions_text
from shared.presentation.units import untested_text
from shared.source_files import SOURCE_FILES_MAX

Command = app_commands.Command[Any, ..., Any]
BACK, NEXT = "◀", "▶"
ENTRIES_MAX = 100
# Separates a GPU type from a problem version in the id of a button.
AT_VERSION = "@"
# Discord's limit for the id of a button.
ID_LENGTH_MAX = 100


def _visible_commands(interaction: BotInteraction) -> list[Command]:
    has_role = bool(platform_roles(interaction))
    tree, guild = interaction.client.tree, discord.Object(interaction.client.settings.guild)
    commands = []
    for command in tree.walk_commands(guild=guild):
        group = command.root_parent
        is_public = group is None or group.default_permissions is None
        if isinstance(command, app_commands.Command) and (has_role or is_public):
            commands.append(command)
    return commands


async def _match_topics(interaction: BotInteraction, typed: str) -> list[str]:
    commands = _visible_commands(interaction)
    names = {command.qualified_name for command in commands}
    names |= {command.parent.qualified_name for command in commands if command.parent is not None}
    return match_names(typed.lstrip("/"), sorted(names))


Topic = app_commands.Transform[str, CompletedName(_match_topics)]


# The options of the files beside a script, which the help lists in one line.
NUMBERED, FIRST_NUMBER = re.compile(r"file_([0-9]+)\Z"), 2


@app_commands.command(name="help")
async def help_(interaction: BotInteraction, topic: Topic | None = None) -> None:
    """What the bot can do"""
    await defer(interaction)
    name = " ".join((topic or "").strip().lstrip("/").lower().split())
    commands = [
        command
        for command in _visible_commands(interaction)
        if not name or f"{command.qualified_name} ".startswith(f"{name} ")
    ]
    if not commands:
        reason = f"there is no command `{escaped(name, 60)}`: `/leaderboard help` lists them all"
        raise Refused("unknown_topic", reason, "topic")
    lines = []
    for command in commands:
        lines.append(f"`/{command.qualified_name}` {escaped(command.description)}")
        # All commands together are listed without their options.
        for option in command.parameters if name else ():
            optional = "" if option.required else ", optional"
            names = ", ".join(choice.name for choice in option.choices)
            choices = f": {names}" if names else ""
            option_name = f"`{option.display_name}`"
            if numbered := NUMBERED.match(option.display_name):
                if int(numbered[1]) > FIRST_NUMBER:
                    continue
                option_name += f" to `file_{SOURCE_FILES_MAX}`"
            lines.append(f"- {option_name}{optional}{choices}")
    text = "\n".join(lines)
    if len(text) <= BODY_MAX:
        await reply_with_card(interaction, Card(f"/{name}" if name else "Commands", text))
    else:
        await reply_with_lines(interaction, lines)


@app_commands.command()
async def ping(interaction: BotInteraction) -> None:
    """Whether the bot answers"""
    began = time.monotonic()
    await defer(interaction)
    text = f"Pong: Discord in {1000 * interaction.client.latency:.0f} ms, "
    try:
        await interaction.client.api.get(IntakeStatus, "intake")
        text += f"the platform in {1000 * (time.monotonic() - began):.0f} ms."
    except (Refused, Failed):
        text += "the platform does not answer at the moment."
    await reply(interaction, text)


@app_commands.command(name="list")
async def list_(
    interaction: BotInteraction, state: Literal["active", "ended", "all"] = "active"
) -> None:
    """All leaderboards"""
    await defer(interaction)
    await _edit_page(interaction, "list", state, "", 0)


@app_commands.command()
@app_commands.describe(
    gpu="GPU types separated by commas; by default you choose",
    version="The version of the problem; by default the newest",
)
async def show(
    interaction: BotInteraction,
    leaderboard_name: Leaderboard,
    gpu: Gpus | None = None,
    version: app_commands.Range[int, 1] | None = None,
) -> None:
    """The ranking of a leaderboard"""
    await _show_rankings(interaction, "show", leaderboard_name, gpu, version)


@app_commands.command(name="show-personal")
@app_commands.describe(gpu="GPU types separated by commas; by default you choose")
async def personal(
    interaction: BotInteraction, leaderboard_name: Leaderboard, gpu: Gpus | None = None
) -> None:
    """Your ranked submissions"""
    await _show_rankings(interaction, "own", leaderboard_name, gpu)


@app_commands.command()
async def join(interaction: BotInteraction, code: app_commands.Range[str, 1, 100]) -> None:
    """Join a closed leaderboard with an invite"""
    api = await defer(interaction)
    model = api_models.LeaderboardMembership
    joined = await api.request(model, "POST", "user", "join", code=code)
    slugs = ", ".join(f"`{slug}`" for slug in joined.leaderboards)
    await reply(interaction, f"You can now see {slugs}.")


@app_commands.command()
async def queue(interaction: BotInteraction, gpu: Gpus | None = None) -> None:
    """The queues and your open submissions"""
    api = await defer(interaction)
    known_gpus = interaction.client.leaderboards.gpus(None)
    gpus = split_gpus(gpu or "", known_gpus) or known_gpus[:CHOICES_MAX]
    lines = [tables.queue_line(name, await api.get(QueueOfGpu, "queue", name)) for name in gpus]
    try:
        page = await api.get(OwnSubmissions, "me", "submissions", state="open", limit=10)
        own_submissions = page.items
        balances = await api.get(Balances, "quota")
        lines.append(open_submissions_text(balances.open_submissions))
    except Refused:
        own_submissions = []
    lines += [
        f"yours: **#{submission.number}** {escaped(submission.problem)} · "
        f"{escaped(submission.gpu)} · {submission.state}"
        for submission in own_submissions
    ]
    await reply(interaction, "\n".join(lines)[:CONTENT_MAX] or "The queues are empty.")


async def _leaderboards_page(interaction: BotInteraction, state: str, number: int) -> tables.Page:
    api = user_api(interaction)
    # The cache contains public leaderboards only.
    visible = await api.get(Problems, "problems", state="all", limit=ENTRIES_MAX)
    visible_problems = {problem.slug: problem for problem in visible.items}
    problems = interaction.client.leaderboards.known | visible_problems
    matching = [
        problem for _, problem in sorted(problems.items()) if state in ("all", problem.state)
    ]
    versions = {slug: problem.problem_version for slug, problem in visible_problems.items()}
    best = {
        (board.problem, board.gpu): board.own_us
        for board in (await api.get(api_models.Leaderboards, "leaderboards")).items
        if board.own_us is not None and board.problem_version == versions.get(board.problem)
    }
    paused = (await interaction.client.api.get(IntakeStatus, "intake")).paused
    return tables.leaderboards_page(matching, number, paused or "", best)


async def _ranking_page(
    interaction: BotInteraction, slug: str, gpu: str, number: int = 0, *, rows: int | None = None
) -> tables.Page:
    """Return a page; with `rows` the only one, of so many rows and without trends."""
    api = user_api(interaction)
    gpu, _, version_text = gpu.partition(AT_VERSION)
    version = {"version": int(version_text)} if version_text.isdecimal() else {}
    path = ("leaderboards", slug, gpu)
    board = await api.get(api_models.Leaderboard, *path, limit=ENTRIES_MAX, **version)
    # Only after this read succeeded, which shows that the user may see the leaderboard.
    trends = interaction.client.trends
    before = {} if version or rows else await trends.past_ranks(api, slug, gpu)
    title = f"{slug} on {gpu}" + (f", version {version_text}" if version else "")
    items = board.items[:rows]
    page = tables.ranking_page(title, items, number, f"event {board.as_of}", before)
    if board.items:
        return page
    lines = [page.card.body]
    if board.other_versions:
        lines = [tables.other_versions_text(board.problem_version, board.other_versions)]
    if board.is_untested:
        lines.append(f"⚠ {untested_text([escaped(board.gpu)])}")
    body = "\n".join(lines)
    return replace(page, card=replace(page.card, body=body))


async def _personal_page(
    interaction: BotInteraction, slug: str, gpu: str, number: int = 0, *, rows: int | None = None
) -> tables.Page:
    """Return a page; with `rows` the only one, of so many rows."""
    api = user_api(interaction)
    submissions = await fetch_own_history(api, slug, gpu)
    board = await api.get(api_models.Leaderboard, "leaderboards", slug, gpu, limit=ENTRIES_MAX)
    ranks = tables.rank_labels(board.items)
    return tables.personal_page(f"Yours: {slug} on {gpu}", submissions[:rows], number, ranks)


def page_buttons(kind: str, slug: str, gpu: str, page: tables.Page) -> discord.ui.View | None:
    """Return the buttons of a page; None for a single page or names too long for an id."""
    if page.count == 1 or len(f"page:{kind}:{slug}:{gpu}:{page.count}") > ID_LENGTH_MAX:
        return None
    view = discord.ui.View(timeout=None)
    for label, number in ((BACK, page.number - 1), (NEXT, page.number + 1)):
        is_off = not 0 <= number < page.count
        view.add_item(PageButton(f"{kind}:{slug}:{gpu}", number, label, is_off=is_off))
    return view


class PageButton(
    BotButton[CommandBot],
    template=r"page:(?P<where>(?:list|show|own):[a-z0-9_.-]*:[A-Za-z0-9_.@-]*):(?P<number>-?\d+)",
):
    """A button whose id names the page that it leads to."""

    def __init__(
        self, where: str, number: int | str, label: str = "…", *, is_off: bool = False
    ) -> None:
        self.where, self.number = where, int(number)
        super().__init__(label, f"page:{where}:{number}", is_off=is_off)

    async def press(self, interaction: BotInteraction) -> None:
        """Turn the page."""
        await interaction.response.defer()
        kind, slug, gpu = self.where.split(":")
        await _edit_page(interaction, kind, slug, gpu, self.number)


async def _edit_page(
    interaction: BotInteraction, kind: str, slug: str, gpu: str, number: int
) -> None:
    """Show a page of the current data, with its time. Raises `Refused` and `Failed`."""
    if kind == "list":
        page = await _leaderboards_page(interaction, slug, number)
    elif kind == "show":
        page = await _ranking_page(interaction, slug, gpu, number)
    else:
        page = await _personal_page(interaction, slug, gpu, number)
    embed = build_embed(replace(page.card, at=time.time()))
    view = page_buttons(kind, slug, gpu, page)
    await interaction.edit_original_response(content=None, embed=embed, view=view)


async def _show_rankings(
    interaction: BotInteraction, kind: str, slug: str, gpu: str | None, version: int | None = None
) -> None:
    """Show the pages of one GPU type, or the first rows of several. Raises `Refused`, `Failed`."""
    api = await defer(interaction)
    known_gpus = (await interaction.client.leaderboards.get(api, slug)).gpus
    gpus = split_gpus(gpu or "", known_gpus) or tuple(known_gpus)
    if not gpus:
        raise Refused("unknown_gpu", f"`{slug}` has no GPU type")
    if not gpu and len(gpus) > 1:
        menu, question = GpuMenu(interaction, gpus), f"Which GPU types of `{slug}`?"
        gpus = await menu.ask(question, "Nothing was chosen within two minutes.")
        if not gpus:
            return
    suffix = "" if version is None else f"{AT_VERSION}{version}"
    if len(gpus) == 1:
        await _edit_page(interaction, kind, slug, f"{gpus[0]}{suffix}", 0)
        return
    gpus, rows = gpus[:CHOICES_MAX], tables.rows_of_each(len(gpus))
    read_page = _ranking_page if kind == "show" else _personal_page
    pages = {
        name: await read_page(interaction, slug, f"{name}{suffix}", rows=rows) for name in gpus
    }
    title = f"Yours: {slug}" if kind == "own" else slug
    title += f", version {version}" if version is not None else ""
    card = tables.combined_card(title, pages, rows)
    await reply_with_card(interaction, replace(card, at=time.time()))


COMMANDS: Commands = (list_, show, personal, join, queue, help_)
