"""The buttons of a report: submit the same file again, and compare with the user's best."""

import math
import re
from typing import Any

import discord

from discord_edge.bot.interactions import BotInteraction, reply_on_error, user_api
from discord_edge.bot.messages import build_embed, build_files
from discord_edge.platform_api import NOBODY, PlatformApi
from discord_edge.submissions.models import TrackedSubmission
from discord_edge.submissions.reply import submit_and_reply
from discord_edge.submissions.report import comparison_card
from shared.api.accounts import CurrentAccount
from shared.api.leaderboards import Comparison, History, PersonalRecord
from shared.api.submissions import FullSubmission, SubmissionRequest
from shared.errors import Refused

Button = discord.ui.Button[discord.ui.View]
# The modes whose times can be compared with those of ranked submissions.
TIMED = ("benchmark", "ranked")


class SubmissionButton(discord.ui.DynamicItem[Button], template="(?!)"):
    """A button whose id contains the number of a submission."""

    id_prefix: str
    button_label: str

    def __init__(self, number: int, id_suffix: str = "") -> None:
        self.number = number
        identity = f"{self.id_prefix}:{number}{id_suffix}"
        super().__init__(Button(label=self.button_label, custom_id=identity))

    @classmethod
    async def from_custom_id(
        cls,
        interaction: discord.Interaction[Any],  # noqa: ARG003 - the library's
        item: discord.ui.Item[Any],  # noqa: ARG003
        match: re.Match[str],
    ) -> "SubmissionButton":
        """Restore the button of a message, however old."""
        return cls(int(match["number"]))


async def fetch_own_submission(interaction: BotInteraction, number: int) -> FullSubmission:
    """Return the user's own submission. Raises the same `Refused` for others' and unknown ones."""
    api = user_api(interaction)
    unknown = Refused("unknown_submission", f"you have no submission {number}")
    try:
        me = await api.get(CurrentAccount, "me")
        submission = await api.get(FullSubmission, "submissions", number)
    except Refused as refused:
        if refused.code in (NOBODY, "unknown_submission", "not_found", "no_access"):
            raise unknown from refused
        raise
    if submission.participant_id != me.participant_id:
        raise unknown
    return submission


class ResubmitButton(
    SubmissionButton, template=r"resubmit:(?P<number>[0-9]{1,15})(?::(?P<case>[0-9]{1,4}))?"
):
    """Submits the same file again in the same mode, for the same case and GPU type."""

    id_prefix, button_label = "resubmit", "Resubmit"

    def __init__(self, number: int, case: int = 0) -> None:
        super().__init__(number, f":{case}" if case else "")
        self.case = case

    @classmethod
    async def from_custom_id(
        cls,
        interaction: discord.Interaction[Any],  # noqa: ARG003 - the library's
        item: discord.ui.Item[Any],  # noqa: ARG003
        match: re.Match[str],
    ) -> "ResubmitButton":
        """Restore the button of a message, however old."""
        return cls(int(match["number"]), int(match["case"] or 0))

    async def callback(self, interaction: BotInteraction) -> None:  # type: ignore[override]
        """Submit the file again, as a submission of its own."""
        async with reply_on_error(interaction):
            await interaction.response.defer(ephemeral=True, thinking=True)
            submission = await fetch_own_submission(interaction, self.number)
            path = ("submissions", self.number)
            with_source = await user_api(interaction).get(FullSubmission, *path, source="true")
            request = SubmissionRequest(
                problem=submission.problem,
                mode=submission.mode,
                gpus=(submission.gpu,),
                name=submission.name,
                source=(with_source.source or "").encode(),
                case=self.case,
            )
            await submit_and_reply(interaction, request)


class CompareButton(SubmissionButton, template=r"best:(?P<number>[0-9]{1,15})"):
    """Compares with the user's best on the leaderboard, case by case."""

    id_prefix, button_label = "best", "Compare with best"

    async def callback(self, interaction: BotInteraction) -> None:  # type: ignore[override]
        """Show the ratio of each case."""
        async with reply_on_error(interaction):
            await interaction.response.defer(ephemeral=True, thinking=True)
            submission = await fetch_own_submission(interaction, self.number)
            await _compare_with_best(interaction, submission)


async def fetch_own_history(api: PlatformApi, problem: str, gpu: str) -> list[PersonalRecord]:
    """Return the user's own ranked submissions; empty for an unknown user."""
    me = await api.get_if_known(CurrentAccount, "me")
    if me is None:
        return []
    path = ("participants", me.name, "history")
    return (await api.get(History, *path, problem=problem, gpu=gpu)).items


async def _compare_with_best(interaction: BotInteraction, submission: FullSubmission) -> None:
    """Compare with the user's best on the same leaderboard. Raises `Refused` if it is the best."""
    api, number = user_api(interaction), submission.number
    problem, gpu = submission.problem, submission.gpu
    history = await fetch_own_history(api, problem, gpu)
    counting = [record for record in history if record.counts]
    if not counting:
        raise Refused("no_best", f"you have no ranked time for {problem} on {gpu} yet")
    best = min(counting, key=lambda record: record.score_us or math.inf).number
    if best == number:
        raise Refused("is_best", f"#{best} is your best there")
    await reply_with_comparison(interaction, best, number)


async def reply_with_comparison(interaction: BotInteraction, a: int, b: int) -> None:
    """Show the ratio of each case of two submissions, with the diff of the sources as a file."""
    comparison = await user_api(interaction).get(Comparison, "compare", a=a, b=b)
    card = comparison_card(comparison)
    await interaction.edit_original_response(embed=build_embed(card), attachments=build_files(card))


def report_buttons(submission: TrackedSubmission) -> discord.ui.View:
    """Return the buttons below the report on a submission."""
    view = discord.ui.View(timeout=None)
    view.add_item(ResubmitButton(submission.number, submission.case))
    if submission.mode in TIMED:
        view.add_item(CompareButton(submission.number))
    return view
