"""Pages with buttons to turn them, which outlive the process that created them."""

import re
import time
from dataclasses import replace
from typing import Any

import discord

from discord_edge.bot.interactions import BotInteraction, reply_on_error, user_api
from discord_edge.bot.messages import build_embed
from discord_edge.leaderboards.tables import (
    Page,
    leaderboards_page,
    other_versions_text,
    personal_page,
    rank_labels,
    ranking_page,
)
from discord_edge.platform_api import PlatformApi
from discord_edge.submissions.report_buttons import fetch_own_history
from shared.api.leaderboards import Leaderboard, Leaderboards
from shared.api.problems import Problems
from shared.api.queues import IntakeStatus

BACK, NEXT = "◀", "▶"
ENTRIES_MAX = 100
# Separates a GPU type from a problem version in the id of a button.
AT_VERSION = "@"
# Discord's limit for the id of a button.
ID_LENGTH_MAX = 100


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
    versions = {problem.slug: problem.number for problem in visible.items}
    best = {
        (board.problem, board.gpu): board.own_us
        for board in (await api.get(Leaderboards, "leaderboards")).items
        if board.own_us is not None and board.problem_number == versions.get(board.problem)
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
