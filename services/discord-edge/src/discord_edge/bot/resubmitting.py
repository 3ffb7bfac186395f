"""The buttons of a report: the same file once more, and how it compares with one's own best."""

import re
from collections.abc import Awaitable, Callable
from typing import Any

import discord

from discord_edge.bot.asking import Here, pressed, user_of
from discord_edge.bot.buttons import OfSubmission
from discord_edge.bot.drawing import embed, files
from discord_edge.bot.original import submit
from discord_edge.bot.own import mine
from discord_edge.domain.comparison import compared
from discord_edge.domain.wishes import Wish
from discord_edge.service.ports import Post
from shared.errors import Refused
from shared.telling.answers import Answer

# What has times that a ranked submission has, too.
TIMED = ("benchmark", "ranked")


async def _pressed(here: Here, number: int, act: Callable[[Here, Answer], Awaitable[None]]) -> None:
    """Promise an answer, then act on a submission of one's own."""
    async with pressed(here):
        await here.response.defer(ephemeral=True, thinking=True)
        await act(here, await mine(here, number))


class ResubmitButton(
    OfSubmission, template=r"resubmit:(?P<number>[0-9]{1,15})(?::(?P<case>[0-9]{1,4}))?"
):
    """Sends the same file in the same mode, with the same case, to the same GPU type."""

    what, says = "resubmit", "Resubmit"

    def __init__(self, number: int, case: int = 0) -> None:
        super().__init__(number, f":{case}" if case else "")
        self.case = case

    @classmethod
    async def from_custom_id(
        cls,
        here: discord.Interaction[Any],  # noqa: ARG003 - the library's
        item: discord.ui.Item[Any],  # noqa: ARG003
        match: re.Match[str],
    ) -> "ResubmitButton":
        """The button of a message that may be old."""
        return cls(int(match["number"]), int(match["case"] or 0))

    async def callback(self, here: Here) -> None:  # type: ignore[override]
        """Send it again, as a submission of its own."""
        await _pressed(here, self.number, lambda here, found: _again(here, found, self.case))


class CompareButton(OfSubmission, template=r"best:(?P<number>[0-9]{1,15})"):
    """Compares with one's own best of the leaderboard, case by case."""

    what, says = "best", "Compare with best"

    async def callback(self, here: Here) -> None:  # type: ignore[override]
        """Show the ratio of each case."""
        await _pressed(here, self.number, _with_best)


async def _again(here: Here, found: Answer, case: int) -> None:
    api, path = here.client.api, ("submissions", int(found["number"]))
    source = str((await api.get(user_of(here), *path, source="true"))["source"])
    problem, mode, gpu, name = (str(found[one]) for one in ("problem", "mode", "gpu", "name"))
    await submit(here, Wish(problem, mode, (gpu,), name, source.encode(), case))


async def _with_best(here: Here, found: Answer) -> None:
    number, best = int(found["number"]), await _best(here, found)
    if best == number:
        raise Refused("is_best", f"#{best} is your best there")
    card = compared(await here.client.api.get(user_of(here), "compare", a=best, b=number))
    await here.edit_original_response(embed=embed(card), attachments=files(card))


async def _best(here: Here, found: Answer) -> int:
    """The number of one's best on the leaderboard of a submission. Errors: Refused; Failed."""
    api, user = here.client.api, user_of(here)
    me = await api.get(user, "me")
    path = ("participants", str(me["name"]), "history")
    answer = await api.get(user, *path, problem=found["problem"], gpu=found["gpu"])
    counts = [one for one in answer["items"] if one["counts"]]
    if not counts:
        where = f"{found['problem']} on {found['gpu']}"
        raise Refused("no_best", f"you have no ranked time for {where} yet")
    return int(min(counts, key=lambda one: float(one["score_us"]))["number"])


def afterwards(post: Post) -> discord.ui.View:
    """What can be done with a submission that is over."""
    view = discord.ui.View(timeout=None)
    view.add_item(ResubmitButton(post.number, post.case))
    if post.mode in TIMED:
        view.add_item(CompareButton(post.number))
    return view
