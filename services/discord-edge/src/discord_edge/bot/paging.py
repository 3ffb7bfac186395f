"""Pages that are turned by buttons, which outlive the process that made them."""

import re
import time
from dataclasses import replace
from typing import Any

import discord

from discord_edge.bot.asking import Here, pressed, user_of
from discord_edge.bot.drawing import embed
from discord_edge.domain import tables
from discord_edge.domain.tables import Page
from discord_edge.service.boards import board_of
from discord_edge.service.ports import User
from shared.errors import Refused

BACK, ON = "◀", "▶"
ENTRIES_MAX = 100
# What stands in a button's id between a GPU type and a version of the problem.
AT_VERSION = "@"
# What Discord takes as the id of a button.
ID_LENGTH_MAX = 100
NOBODY = "missing_credential"


async def looked_up(here: Here, what: str, slug: str, gpu: str, number: int) -> Page:
    """A page as the data is now, with its time. Errors: Refused; Failed."""
    user = user_of(here)
    if what == "list":
        page = await _list(here, user, slug, number)
    elif what == "show":
        page = await _show(here, user, (slug, gpu), number)
    else:
        items = await _own(here, user, slug, gpu)
        board = await here.client.api.get(user, "leaderboards", slug, gpu, limit=ENTRIES_MAX)
        ranks = tables.placed(board["items"])
        page = tables.personal(f"Yours: {slug} on {gpu}", items, number, ranks)
    return replace(page, card=replace(page.card, at=time.time()))


async def _list(here: Here, user: User, state: str, number: int) -> Page:
    """The leaderboards that somebody may see, with their own best, and whether all is stopped."""
    api, known = here.client.api, dict(here.client.boards.known)
    # What is closed to others is in nobody's memory.
    theirs = await api.get(user, "problems", state="all", limit=ENTRIES_MAX)
    known |= {one["slug"]: board_of(one) for one in theirs["items"]}
    found = [one for _, one in sorted(known.items()) if state in ("all", one.state)]
    numbers = {one["slug"]: one["number"] for one in theirs["items"]}
    best = {
        (line["problem"], line["gpu"]): line["own_us"]
        for line in (await api.get(user, "leaderboards"))["items"]
        if line["own_us"] is not None and line["problem_number"] == numbers.get(line["problem"])
    }
    paused = (await api.get(None, "intake"))["paused"]
    return tables.boards(found, number, str(paused or ""), best)


async def _show(here: Here, user: User, board: tuple[str, str], number: int) -> Page:
    """A ranking, and how it differs from that of a week ago where that is known."""
    slug, (gpu, _, said) = board[0], board[1].partition(AT_VERSION)
    version = {"version": int(said)} if said.isdecimal() else {}
    answer = await here.client.api.get(
        user, "leaderboards", slug, gpu, limit=ENTRIES_MAX, **version
    )
    # Only after this is known: who may see the one may see the other.
    before = {} if version else await here.client.trends.before(user, slug, gpu)
    items, note = answer["items"], f"event {answer.get('as_of')}"
    title = f"{slug} on {gpu}" + (f", version {said}" if version else "")
    page = tables.ranking(title, items, number, note, before)
    if items or not answer.get("other_versions"):
        return page
    body = tables.other_versions_text(answer["problem_version"], answer["other_versions"])
    return replace(page, card=replace(page.card, body=body))


async def _own(here: Here, user: User, slug: str, gpu: str) -> list[dict[str, Any]]:
    """One's own ranked submissions; nothing of who is not known yet."""
    try:
        me = await here.client.api.get(user, "me")
    except Refused as refused:
        if refused.code == NOBODY:
            return []
        raise
    path = ("participants", str(me["name"]), "history")
    answer = await here.client.api.get(user, *path, problem=slug, gpu=gpu)
    items: list[dict[str, Any]] = answer["items"]
    return items


def buttons(what: str, slug: str, gpu: str, page: Page) -> discord.ui.View | None:
    """Back and on; none where there is one page, or where the names are too long for an id."""
    if page.count == 1 or len(f"page:{what}:{slug}:{gpu}:{page.count}") > ID_LENGTH_MAX:
        return None
    view = discord.ui.View(timeout=None)
    for label, number in ((BACK, page.number - 1), (ON, page.number + 1)):
        is_off = not 0 <= number < page.count
        view.add_item(PageButton(f"{what}:{slug}:{gpu}", number, label, is_off=is_off))
    return view


class PageButton(
    discord.ui.DynamicItem[discord.ui.Button[discord.ui.View]],
    template=r"page:(?P<where>(?:list|show|own):[a-z0-9_.-]*:[A-Za-z0-9_.@-]*):(?P<number>-?\d+)",
):
    """A button with all that it needs in its id."""

    def __init__(self, where: str, number: int, label: str = "…", *, is_off: bool = False) -> None:
        self.where, self.number = where, number
        custom_id = f"page:{where}:{number}"
        super().__init__(discord.ui.Button(label=label, custom_id=custom_id, disabled=is_off))

    @classmethod
    async def from_custom_id(
        cls,
        here: discord.Interaction[Any],  # noqa: ARG003 - the library's
        item: discord.ui.Item[Any],  # noqa: ARG003
        match: re.Match[str],
    ) -> "PageButton":
        """The button of a message that may be old."""
        return cls(match["where"], int(match["number"]))

    async def callback(self, here: Here) -> None:  # type: ignore[override]
        """Turn the page."""
        async with pressed(here):
            await here.response.defer()
            what, slug, gpu = self.where.split(":")
            page = await looked_up(here, what, slug, gpu, self.number)
            view = buttons(what, slug, gpu, page)
            await here.edit_original_response(embed=embed(page.card), view=view)
