"""The answer to a submit command, updated while its token is valid; nothing depends on it."""

import asyncio
import contextlib
from collections.abc import Sequence

import discord

from discord_edge.bot.dialogs import Question
from discord_edge.bot.interactions import (
    BotInteraction,
    interaction_user,
    reply,
    user_api,
)
from discord_edge.bot.messages import build_embed, build_files
from discord_edge.cards import Attachment, Card
from discord_edge.submissions.cancellation import cancel_buttons
from discord_edge.submissions.models import (
    PendingSubmission,
    Status,
    TrackedSubmission,
    first_status,
)
from discord_edge.wording import CONTENT_MAX, escaped, shorten, without_mentions
from shared.api.preferences import Consent
from shared.api.submissions import SubmissionRequest
from shared.errors import Refused

ASKED_S_MAX = 600.0
TEXT_MAX = 3500
CONSENT = "consent_missing"
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


class _ConsentView(Question):
    """Accept or decline; no answer in time declines."""

    is_given = False

    @discord.ui.button(label="Accept", style=discord.ButtonStyle.primary)
    async def accept(
        self, interaction: BotInteraction, _: discord.ui.Button["_ConsentView"]
    ) -> None:
        self.is_given = True
        await self._close(interaction, "Accepted; submitting …")

    @discord.ui.button(label="Decline")
    async def decline(
        self, interaction: BotInteraction, _: discord.ui.Button["_ConsentView"]
    ) -> None:
        await self._close(interaction, "Declined, so nothing is submitted.")

    async def _close(self, interaction: BotInteraction, text: str) -> None:
        await interaction.response.edit_message(content=text, view=None)
        self.stop()


async def ensure_consent(interaction: BotInteraction, slug: str) -> bool:
    """Ask for consent, and return whether the user gave it. Raises `Refused` and `Failed`."""
    api, path = user_api(interaction), ("problems", slug, "consent")
    consent = await api.get(Consent, *path)
    text = consent.text
    body = without_mentions(text)
    is_long = len(body) > TEXT_MAX
    card = Card(
        title=f"{slug} asks that you accept this",
        body=shorten(body, TEXT_MAX),
        footer="the full text is in the file" if is_long else "",
        files=(Attachment("consent.md", text.encode()),) if is_long else (),
    )
    view = _ConsentView(interaction, ASKED_S_MAX)
    await interaction.edit_original_response(
        content="Before your first submission:",
        embed=build_embed(card),
        attachments=build_files(card),
        view=view,
    )
    await view.wait()
    if not view.is_given:
        if not interaction.is_expired():
            text = "Not accepted, so nothing is submitted."
            await interaction.edit_original_response(content=text, view=None)
        return False
    consent_api = api.with_key(f"{api.key}-consent")
    await consent_api.request(object, "POST", *path, digest=consent.digest)
    return True


async def submit_and_reply(interaction: BotInteraction, request: SubmissionRequest) -> None:
    """Submit, track the submissions, and show their status. Raises `Refused` and `Failed`."""
    user, channel = interaction_user(interaction), str(parent_channel(interaction))
    pending = PendingSubmission(str(interaction.id), user, channel, request)
    submissions = await _send(interaction, pending)
    if not submissions:
        return
    status_reply = _StatusReply(interaction, submissions, request.name)
    updating = asyncio.create_task(status_reply.keep_updating())
    try:
        await interaction.client.tracker.track(submissions, status_reply.set_status)
        await updating
    finally:
        updating.cancel()


def parent_channel(interaction: BotInteraction) -> int:
    """Return the channel of an interaction; for a thread, its parent."""
    thread = interaction.channel if isinstance(interaction.channel, discord.Thread) else None
    return thread.parent_id if thread else interaction.channel_id or 0


async def _send(interaction: BotInteraction, pending: PendingSubmission) -> list[TrackedSubmission]:
    """Return the accepted submissions, after asking for a missing consent."""
    try:
        submissions = await interaction.client.sender.send(pending)
    except Refused as refused:
        if refused.code != CONSENT:
            raise
        if not await ensure_consent(interaction, pending.request.problem):
            return []
        submissions = await interaction.client.sender.send(pending)
    if submissions is None:
        await reply(interaction, LATE)
    return submissions or []


class _StatusReply:
    """Shows the status of each submission of a command, in a line each."""

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
                        await asyncio.wait_for(self._all_over.wait(), EDIT_EVERY_S)
        except TimeoutError:
            await self._show(ENDS if self._room else ENDS_ALONE)

    async def _show(self, last_line: str = "") -> bool:
        """Show the current statuses, and return whether the reply arrived."""
        statuses = [self._statuses[submission.number] for submission in self._submissions]
        head = f"Submitted {escaped(self._name, 60)}.{self._thread_hint()}"
        text = "\n".join([head, *(status.line for status in statuses), last_line])
        unfinished = [
            submission
            for submission in self._submissions
            if not self._statuses[submission.number].is_over
        ]
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
