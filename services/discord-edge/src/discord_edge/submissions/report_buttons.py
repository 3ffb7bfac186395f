"""The buttons of a report: submit the same file again, and compare with the user's best."""

import math

import discord

from discord_edge.bot.dialogs import BotButton
from discord_edge.bot.interactions import BotInteraction, defer, reply_with_card, user_api
from discord_edge.platform_api import NOBODY, PlatformApi
from discord_edge.submissions.models import TrackedSubmission
from discord_edge.submissions.reply import submit_and_reply
from discord_edge.submissions.report import comparison_card
from shared.api.accounts import CurrentAccount
from shared.api.leaderboards import Comparison, History, PersonalRecord
from shared.api.submissions import FullSubmission, SubmissionRequest
from shared.errors import Refused

# The modes whose times can be compared with those of ranked submissions.
TIMED = ("benchmark", "ranked")


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
    BotButton, template=r"resubmit:(?P<number>[0-9]{1,15})(?::(?P<case>[0-9]{1,4}))?"
):
    """Submits the same file again in the same mode, for the same case and GPU type."""

    def __init__(self, number: int | str, case: int | str = 0) -> None:
        self.number, self.case = int(number), int(case or 0)
        super().__init__("Resubmit", f"resubmit:{number}" + (f":{case}" if case else ""))

    async def press(self, interaction: BotInteraction) -> None:
        """Submit the file again, as a submission of its own."""
        api = await defer(interaction)
        submission = await fetch_own_submission(interaction, self.number)
        path = ("submissions", self.number)
        with_source = await api.get(FullSubmission, *path, source="true")
        request = SubmissionRequest(
            problem=submission.problem,
            mode=submission.mode,
            gpus=(submission.gpu,),
            name=submission.name,
            source=(with_source.source or "").encode(),
            case=self.case,
        )
        await submit_and_reply(interaction, request)


class CompareButton(BotButton, template=r"best:(?P<number>[0-9]{1,15})"):
    """Compares with the user's best on the leaderboard, case by case."""

    def __init__(self, number: int | str) -> None:
        self.number = int(number)
        super().__init__("Compare with best", f"best:{number}")

    async def press(self, interaction: BotInteraction) -> None:
        """Show the ratio of each case. Raises `Refused` if the submission itself is the best."""
        api = await defer(interaction)
        submission = await fetch_own_submission(interaction, self.number)
        problem, gpu = submission.problem, submission.gpu
        history = await fetch_own_history(api, problem, gpu)
        counting = [record for record in history if record.counts]
        if not counting:
            raise Refused("no_best", f"you have no ranked time for {problem} on {gpu} yet")
        best = min(counting, key=lambda record: record.score_us or math.inf).number
        if best == self.number:
            raise Refused("is_best", f"#{best} is your best there")
        await reply_with_comparison(interaction, best, self.number)


async def fetch_own_history(api: PlatformApi, problem: str, gpu: str) -> list[PersonalRecord]:
    """Return the user's own ranked submissions; empty for an unknown user."""
    me = await api.get_if_known(CurrentAccount, "me")
    if me is None:
        return []
    path = ("participants", me.name, "history")
    return (await api.get(History, *path, problem=problem, gpu=gpu)).items


async def reply_with_comparison(interaction: BotInteraction, a: int, b: int) -> None:
    """Show the ratio of each case of two submissions, with the diff of the sources as a file."""
    comparison = await user_api(interaction).get(Comparison, "compare", a=a, b=b)
    await reply_with_card(interaction, comparison_card(comparison))


def report_buttons(submission: TrackedSubmission) -> discord.ui.View:
    """Return the buttons below the report on a submission."""
    view = discord.ui.View(timeout=None)
    view.add_item(ResubmitButton(submission.number, submission.case))
    if submission.mode in TIMED:
        view.add_item(CompareButton(submission.number))
    return view
