"""The answer to a submit command, updated while its token is valid, and the buttons."""

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any, Protocol

import aiohttp
import discord
import msgspec

from discord_edge.bot.interactions import (
    NOT_YOURS,
    UNHEARD,
    BotButton,
    BotInteraction,
    CommandBot,
    Confirmation,
    GpuMenu,
    defer,
    interaction_user,
    parent_channel,
    reply,
    reply_with_card,
    reply_with_error,
    user_api,
)
from discord_edge.platform_api import NOBODY, PlatformApi
from discord_edge.submissions.models import (
    PendingSubmission,
    Status,
    TrackedSubmission,
    explain_runner,
    first_status,
)
from discord_edge.submissions.report import comparison_card
from discord_edge.wording import CONTENT_MAX, Attachment, Card, escaped, shorten, without_mentions
from shared.api.accounts import Consent, CurrentAccount, Preferences
from shared.api.leaderboards import Comparison, History, PersonalRecord
from shared.api.queues import Queues
from shared.api.submissions import FullSubmission, SubmissionRequest
from shared.errors import Failed, Refused
from shared.licences import CHOICES
from shared.source_files import SourceFile

CANCEL, CANCELLING = "Cancel", "Cancelling"
LABEL_MAX = 80
# Discord allows five rows of five.
BUTTONS_MAX = 25
# Ingest's code for a submission that has ended: its last message has no button anyway.
OVER = "already_ended"
ASKED_S_MAX = 600.0
TEXT_MAX = 3500
CONSENT = "consent_missing"
NO_AGENT = "no_agent"
NO_LICENCE = "licence_missing"
# Users look at the answer less than at the thread.
EDIT_EVERY_S = 4.0
# The time before the token expires that is left for the last edit.
LEFT_S = 60.0
LATE = (
    "The platform does not answer at the moment. The bot keeps sending your file until it does, so "
    "do not send it again. You will be notified in a thread, or by direct message if it is refused."
)
ENDS = "This answer is no longer updated: follow it there."
ENDS_ALONE = "This answer is no longer updated: use `/leaderboard get-submission`."
# The modes whose times can be compared with those of ranked submissions.
TIMED = ("benchmark", "ranked")

# Called with each status and the channel of its message, "" for none; it never fails.
StatusListener = Callable[[Status, str], None]

_log = logging.getLogger(__name__)


class Sender(Protocol):
    """Sends submissions; `SubmissionSender` does."""

    async def send(self, pending: PendingSubmission) -> list[TrackedSubmission] | None:
        """Return the accepted submissions; None while there is no answer.

        Raises `Refused` and `Failed`.
        """


class Tracker(Protocol):
    """Reports on open submissions; `SubmissionTracker` does."""

    async def track(
        self, submissions: Sequence[TrackedSubmission], listener: StatusListener
    ) -> None:
        """Report on submissions until they end."""

    def set_cancelling(self, number: int, *, is_cancelling: bool) -> None:
        """Show that a submission is being cancelled, or no longer."""


class SubmissionBot(CommandBot):
    """The bot as the commands about submissions see it."""

    sender: Sender
    tracker: Tracker


SubmissionInteraction = discord.Interaction[SubmissionBot]


class CancelButton(
    BotButton[SubmissionBot], template=r"cancel:(?P<number>[0-9]{1,15})(?::(?P<owner>[0-9]{1,20}))?"
):
    """Cancels for the owner; the ids of old buttons name no owner, so ingest alone checks it."""

    def __init__(
        self, number: int | str, owner: str = "", label: str = CANCEL, *, is_off: bool = False
    ) -> None:
        self.number, self.owner = int(number), owner
        identity = f"cancel:{number}:{owner}" if owner else f"cancel:{number}"
        super().__init__(label[:LABEL_MAX], identity, is_off=is_off)

    async def press(self, interaction: SubmissionInteraction) -> None:
        """Cancel the submission and disable the button."""
        if self.owner and str(interaction.user.id) != self.owner:
            await reply_with_error(interaction, NOT_YOURS)
            return
        tracker = interaction.client.tracker
        # Status edits that happen meanwhile keep the button disabled.
        tracker.set_cancelling(self.number, is_cancelling=True)
        try:
            await self._disable(interaction)
            path = ("submissions", self.number, "cancel")
            await user_api(interaction).request(object, "POST", *path)
        except Exception as error:
            tracker.set_cancelling(self.number, is_cancelling=False)
            code = getattr(error, "code", "")
            if isinstance(error, discord.HTTPException) and code in UNHEARD:
                return
            if isinstance(error, Refused | Failed) and code != OVER:
                # The button can be pressed again, if the message still exists.
                with contextlib.suppress(discord.HTTPException, aiohttp.ClientError, OSError):
                    await interaction.edit_original_response(view=_copy_buttons(interaction, ""))
            raise
        await reply(interaction, f"Submission **#{self.number}** is being cancelled.")

    async def _disable(self, interaction: BotInteraction) -> None:
        try:
            view = _copy_buttons(interaction, self.custom_id)
            await interaction.response.edit_message(view=view)
        except (aiohttp.ClientError, OSError) as error:
            # Discord may have disabled it, so it could not be pressed again: cancel all the same.
            _log.info("press %d is not acknowledged: %s", interaction.id, type(error).__name__)


def _copy_buttons(interaction: BotInteraction, pressed_id: str) -> discord.ui.View:
    assert interaction.message is not None, "a button belongs to a message"
    view = discord.ui.View(timeout=None)
    for button in _components(interaction.message):
        if isinstance(button, discord.Button):
            _, number, *owner = str(button.custom_id).split(":")
            is_off = button.disabled or button.custom_id == pressed_id
            label = button.label or CANCEL
            if is_off and not label.startswith(CANCELLING):
                label = label.replace(CANCEL, CANCELLING, 1)
            view.add_item(CancelButton(number, "".join(owner), label, is_off=is_off))
    return view


def _components(message: discord.Message) -> list[Any]:
    rows = [row for row in message.components if isinstance(row, discord.ActionRow)]
    return [component for row in rows for component in row.children]


def has_cancel_button(message: discord.Message, submission: TrackedSubmission) -> bool:
    """Whether a message has the cancel button of a submission."""
    ids = [getattr(component, "custom_id", None) or "" for component in _components(message)]
    return any(identity.split(":")[:2] == ["cancel", str(submission.number)] for identity in ids)


def cancel_buttons(
    submissions: Sequence[TrackedSubmission], cancelling: Collection[int] = ()
) -> discord.ui.View:
    """Return a button per submission of a command; those being cancelled are disabled."""
    view = discord.ui.View(timeout=None)
    for submission in submissions[:BUTTONS_MAX]:
        is_off = submission.number in cancelling
        label = CANCELLING if is_off else CANCEL
        if len(submissions) > 1:
            label = f"{label} #{submission.number} {submission.gpu}"
        view.add_item(CancelButton(submission.number, submission.person, label, is_off=is_off))
    return view


async def ensure_consent(interaction: BotInteraction, slug: str) -> bool:
    """Ask for consent, and return whether the user gave it. Raises `Refused` and `Failed`."""
    api, path = user_api(interaction), ("problems", slug, "consent")
    consent = await api.get(Consent, *path)
    body = without_mentions(consent.text)
    is_long = len(body) > TEXT_MAX
    card = Card(
        title=f"{slug} asks that you accept this",
        body=shorten(body, TEXT_MAX),
        footer="the full text is in the file" if is_long else "",
        files=(Attachment("consent.md", consent.text.encode()),) if is_long else (),
    )
    style = discord.ButtonStyle.primary
    question = Confirmation(interaction, "Accept", "Decline", ASKED_S_MAX, style)
    await reply_with_card(interaction, card, "Before your first submission:", question)
    await question.wait()
    if question.is_yes:
        api = api.with_key(f"{api.key}-consent")
        await api.request(object, "POST", *path, digest=consent.digest)
    elif not interaction.is_expired():
        text = "Not accepted, so nothing is submitted."
        await interaction.edit_original_response(content=text, view=None)
    return question.is_yes


async def _ask_for_licence(interaction: BotInteraction, reason: str) -> bool:
    """Let the user choose the licence of all their sources, and return whether they did."""
    menu = GpuMenu(interaction, CHOICES, 1, "The licence of your sources")
    question = f"{without_mentions(reason[:1].upper() + reason[1:])}."
    choice = await menu.ask(question, "No licence was chosen, so nothing is submitted.")
    if choice:
        api = user_api(interaction)
        api = api.with_key(f"{api.key}-licence")
        await api.request(Preferences, "PUT", "me", "preferences", licence=choice[0])
    return bool(choice)


async def _confirm_wait(interaction: BotInteraction, reason: str) -> bool:
    """Ask whether to submit although nobody can run it now."""
    question = f"{escaped(reason[:1].upper() + reason[1:])}. Submit anyway?"
    if await Confirmation(interaction, "Submit anyway", "Do not submit", ASKED_S_MAX).ask(question):
        return True
    if not interaction.is_expired():
        text = "Nothing is submitted."
        await interaction.edit_original_response(content=text, view=None)
    return False


async def _send(
    interaction: SubmissionInteraction,
    pending: PendingSubmission,
    asked: frozenset[str] = frozenset(),
) -> list[TrackedSubmission] | None:
    """Send a request, and ask the user what ingest wants to know, each question once.

    Empty if the user declines; None if there is no answer yet. Raises `Refused` and `Failed`.
    """
    try:
        return await interaction.client.sender.send(pending)
    except Refused as refused:
        code, reason = refused.code, refused.reason
        if code in asked or code not in (CONSENT, NO_AGENT, NO_LICENCE):
            raise
    if code == CONSENT:
        is_wanted = await ensure_consent(interaction, pending.request.problem)
    elif code == NO_LICENCE:
        is_wanted = await _ask_for_licence(interaction, reason)
    else:
        is_wanted = await _confirm_wait(interaction, reason)
        waiting = msgspec.structs.replace(pending.request, waits_for_agent=True)
        pending = replace(pending, request=waiting)
    return await _send(interaction, pending, asked | {code}) if is_wanted else []


async def submit_and_reply(interaction: SubmissionInteraction, request: SubmissionRequest) -> None:
    """Submit, track the submissions, and show their status. Raises `Refused` and `Failed`."""
    user, channel = interaction_user(interaction), str(parent_channel(interaction))
    request = msgspec.structs.replace(request, waits_for_agent=False, needs_licence=True)
    pending = PendingSubmission(str(interaction.id), user, channel, request)
    try:
        submissions = await _send(interaction, pending)
    except Refused as refused:
        if refused.code != "unknown_runner":
            raise
        pools = (await interaction.client.api.get(Queues, "queue")).pools
        raise explain_runner(refused, request.runner, pools) from refused
    if submissions is None:
        await reply(interaction, LATE)
    if not submissions:
        return
    status_reply = _StatusReply(interaction, submissions, request.name)
    updating = asyncio.create_task(status_reply.keep_updating())
    try:
        await interaction.client.tracker.track(submissions, status_reply.set_status)
        await updating
    finally:
        updating.cancel()


class _StatusReply:
    def __init__(
        self, interaction: BotInteraction, submissions: Sequence[TrackedSubmission], name: str
    ) -> None:
        self._interaction, self._submissions, self._name = interaction, submissions, name
        self._statuses = {submission.number: first_status(submission) for submission in submissions}
        self._room: str | None = None
        self._changed, self._all_over = asyncio.Event(), asyncio.Event()

    def set_status(self, status: Status, room: str) -> None:
        """Store a status and the channel of its thread."""
        self._statuses[status.number], self._room = status, room
        self._changed.set()
        if all(current.is_over for current in self._statuses.values()):
            self._all_over.set()

    async def keep_updating(self) -> None:
        """Edit the answer until all submissions are over or the token is about to expire."""
        left = self._interaction.expires_at - discord.utils.utcnow()
        try:
            async with asyncio.timeout(max(0.0, left.total_seconds() - LEFT_S)):
                while await self._show() and not self._all_over.is_set():
                    await self._changed.wait()
                    self._changed.clear()
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(EDIT_EVERY_S):
                            await self._all_over.wait()
        except TimeoutError:
            await self._show(ENDS if self._room else ENDS_ALONE)

    async def _show(self, last_line: str = "") -> bool:
        """Show the current statuses, and return whether the reply arrived."""
        statuses = [self._statuses[submission.number] for submission in self._submissions]
        head = f"Submitted {escaped(self._name, 60)}.{self._thread_hint()}"
        text = "\n".join([head, *(status.line for status in statuses), last_line])
        unfinished = [it for it in self._submissions if not self._statuses[it.number].is_over]
        cancelling = {status.number for status in statuses if status.is_cancelling}
        buttons = cancel_buttons(unfinished, cancelling)
        return await reply(self._interaction, text.strip()[:CONTENT_MAX], buttons)

    def _thread_hint(self) -> str:
        if self._room is None:
            return ""
        if not self._room:
            return " No thread can be opened and you take no direct messages: follow it here."
        channel = self._interaction.client.get_channel(int(self._room))
        is_direct = isinstance(channel, discord.DMChannel)
        return " Follow it in " + ("direct messages." if is_direct else f"<#{self._room}>.")


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
    BotButton[SubmissionBot],
    template=r"resubmit:(?P<number>[0-9]{1,15})"
    r"(?::(?P<case>[0-9]{1,4})(?::(?P<runner>[A-Za-z0-9_-]{1,64}))?)?",
):
    """Submits the same file again in the same mode, for the same case, GPU type and launcher."""

    def __init__(self, number: int | str, case: int | str = 0, runner: str | None = "") -> None:
        self.number, self.case, self.runner = int(number), int(case or 0), runner or ""
        options = f":{self.case}:{self.runner}" if self.runner else f":{case}" if case else ""
        super().__init__("Resubmit", f"resubmit:{number}{options}")

    async def press(self, interaction: SubmissionInteraction) -> None:
        """Submit the file again, as a submission of its own."""
        api = await defer(interaction)
        submission = await fetch_own_submission(interaction, self.number)
        path = ("submissions", self.number)
        entry, *others = (await api.get(FullSubmission, *path, source="true")).source_files
        request = SubmissionRequest(
            problem=submission.problem,
            mode=submission.mode,
            gpus=(submission.gpu,),
            name=submission.name,
            source=entry.text.encode(),
            others=tuple(SourceFile(file.name, file.text.encode()) for file in others),
            case=self.case,
            runner=self.runner,
        )
        await submit_and_reply(interaction, request)


class CompareButton(BotButton[CommandBot], template=r"best:(?P<number>[0-9]{1,15})"):
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
    view.add_item(ResubmitButton(submission.number, submission.case, submission.runner))
    if submission.mode in TIMED:
        view.add_item(CompareButton(submission.number))
    return view
