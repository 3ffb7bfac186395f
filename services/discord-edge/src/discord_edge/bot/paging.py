"""Pages that are turned by buttons, which outlive the process that made them."""

import re
from typing import Any

import discord

from discord_edge.bot.asking import Here, fail, user_of
from discord_edge.bot.rooms import embed
from discord_edge.domain import tables
from discord_edge.domain.tables import Page
from discord_edge.service.ports import User
from shared.errors import Failed, Refused

BACK, ON = "◀", "▶"
ENTRIES_MAX = 100
NOBODY = "missing_credential"


async def looked_up(here: Here, what: str, slug: str, gpu: str, number: int) -> Page:
    """A page as the data is now. Errors: Refused; Failed."""
    client, user = here.client, user_of(here)
    if what == "list":
        known = sorted(client.boards.known.values(), key=lambda one: one.slug)
        found = [one for one in known if slug in ("all", one.state)]
        paused = (await client.api.get(None, "intake"))["paused"]
        return tables.boards(found, number, str(paused or ""))
    if what == "show":
        answer = await client.api.get(user, "leaderboards", slug, gpu, limit=ENTRIES_MAX)
        title = f"{slug} on {gpu}"
        return tables.ranking(title, answer["items"], number, f"event {answer.get('as_of')}")
    return tables.personal(f"Yours: {slug} on {gpu}", await _own(here, user, slug, gpu), number)


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
    """Back and on; none where there is one page."""
    if page.count == 1:
        return None
    view = discord.ui.View(timeout=None)
    for label, number in ((BACK, page.number - 1), (ON, page.number + 1)):
        is_off = not 0 <= number < page.count
        view.add_item(PageButton(f"{what}:{slug}:{gpu}", number, label, is_off=is_off))
    return view


class PageButton(
    discord.ui.DynamicItem[discord.ui.Button[discord.ui.View]],
    template=r"page:(?P<where>(?:list|show|own):[a-z0-9_.-]*:[A-Za-z0-9_.-]*):(?P<number>-?\d+)",
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
        await here.response.defer()
        what, slug, gpu = self.where.split(":")
        try:
            page = await looked_up(here, what, slug, gpu, self.number)
        except (Refused, Failed) as error:
            await fail(here, error)
            return
        view = buttons(what, slug, gpu, page)
        await here.edit_original_response(embed=embed(page.card), view=view)
