"""Notifies participants about their own submissions, by direct message or in a thread."""

import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import discord

from discord_edge.background import retry_until_done
from discord_edge.bot.discord_py import connected, find_own_message, open_direct_channel
from discord_edge.notifications import texts
from discord_edge.notifications.channels import send_notice
from discord_edge.notifications.postgres import PendingMessage, PostgresLedger
from discord_edge.platform_api import DiscordUser, LeaderboardCache, PlatformApi
from discord_edge.submissions.models import PendingSubmission
from discord_edge.submissions.report import headline
from discord_edge.wording import escaped, message_nonce, refusal_text
from shared.api.accounts import DiscordParticipant, DiscordParticipants, SubmissionOwner
from shared.api.leaderboards import Entry, History, Leaderboard
from shared.api.submissions import FullSubmission
from shared.clock import now
from shared.errors import Refused
from shared.event_log import RecordedEvent
from shared.events import BanAppealDecided, SubmissionFinished

OVERTAKEN, FINISHED, NEAR = "overtaken", "run_finished", "deadline_near"
NEAR_HOURS = 24
NEAR_EVERY_S = 10.0
# Names that are forgotten are still in the ledger.
SENT_DEADLINES_MAX = 10_000

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class MessageSender:
    """Creates and sends each thing once, even if the process is killed in between.

    Discord itself forgets nonces within minutes, and its answers may be lost. Methods raise
    `Refused` and `Failed`.
    """

    client: discord.Client
    ledger: PostgresLedger

    async def create_once(self, name: str, create: Callable[[], Awaitable[str]]) -> str:
        """Return the id of what was created under a name, or create it."""
        identity = await self.ledger.made(name)
        if identity is None:
            identity = await create()
            await self.ledger.keep(name, identity)
        return identity

    async def send_once(
        self, name: str, room: str, text: str, send: Callable[[str], Awaitable[str]]
    ) -> str:
        """Return the id of the message with a name: found in the channel, or sent now.

        A second attempt sends the text of the first one, so that it can be found by its text.
        """
        pending = await self.ledger.pending_message(name, room)
        if pending is None:
            pending = PendingMessage(text, await self._newest_message(room))
            await self.ledger.save_pending_message(name, room, pending)
        elif (message := await self._find_message(room, pending)) is not None:
            return message
        return await send(pending.text)

    async def _newest_message(self, room: str) -> str:
        async with connected(self.client):
            channel = self.client.get_partial_messageable(int(room))
            async for message in channel.history(limit=1):
                return str(message.id)
        return "0"

    async def _find_message(self, room: str, pending: PendingMessage) -> str | None:
        text, after = pending.text.strip(), discord.Object(int(pending.after))
        async with connected(self.client):
            return await find_own_message(
                self.client, room, lambda message: message.content == text, after
            )


@dataclass
class DirectMessenger:
    """Sends participants the notifications they chose, and decisions about their submissions."""

    api: PlatformApi
    leaderboards: LeaderboardCache
    sender: MessageSender
    sent_deadlines: set[str] = field(default_factory=set)
    _checked_at: float = field(default=-NEAR_EVERY_S)

    async def notify_owner(self, recorded: RecordedEvent, owner: SubmissionOwner) -> None:
        """Notify the owner of a submission about one event. Raises `Failed`."""
        fact, event = recorded.fact, recorded.envelope.id
        if owner.discord is None or owner.baseline:
            return
        if (decision := texts.decision_text(fact, owner)) is not None:
            text, may_appeal = decision
            notice = texts.Notice(text)
            if may_appeal:
                notice = texts.Notice(f"{text}\n{texts.appeal_hint(owner.number)}", owner.number)
            thread = await self.sender.ledger.submission_thread(owner.number)
            await self._send(owner.discord, notice, f"letter:{event}", thread)
        if isinstance(fact, SubmissionFinished) and texts.wants_notice(owner, FINISHED):
            await self._notify_finished(recorded, owner)

    async def answer_ban_appeal(
        self, recorded: RecordedEvent, account: str, fact: BanAppealDecided
    ) -> None:
        """Tell a banned participant how their appeal was decided. Raises `Failed`."""
        recipient = await self.api.read(DiscordParticipant, "edge", "participants", account)
        if recipient is not None and recipient.discord is not None:
            notice = texts.Notice(texts.ban_appeal_text(fact))
            await self._send(recipient.discord, notice, f"letter:{recorded.envelope.id}")

    async def notify_refused(self, pending: PendingSubmission, refused: Refused) -> None:
        """Tell a user that a submission was refused after its command had ended."""
        reason = refusal_text(refused, pending.key, time.time())
        notice = texts.Notice(f"**{escaped(pending.request.name)}**: {reason}")
        user_id, name = str(pending.user.id), f"refused:{pending.key}"
        await retry_until_done(lambda: self._send(user_id, notice, name))

    async def _notify_finished(self, recorded: RecordedEvent, owner: SubmissionOwner) -> None:
        assert owner.discord is not None, "only users of Discord choose this notification"
        await self.api.wait_for_event(recorded.seq)
        api = self.api.on_behalf_of(DiscordUser(int(owner.discord)))
        submission = await api.read(FullSubmission, "submissions", owner.number)
        if submission is None:
            _log.warning(
                "no notification that #%d finished: its owner may not see it", owner.number
            )
            return
        notice = texts.Notice(texts.finished_text(owner, headline(submission)))
        thread = await self._chosen_thread(owner, FINISHED, owner.number)
        await self._send(owner.discord, notice, f"finished:{recorded.envelope.id}", thread)

    async def notify_overtaken(self, entry: Entry, board: Leaderboard) -> None:
        """Notify the participants whom a new entry overtook. Raises `Failed`."""
        recipients = await self._recipients(OVERTAKEN)
        behind = {other.participant_id for other in board.items if other.rank > entry.rank}
        if entry.participant is None or behind.isdisjoint(recipients):
            return
        path = ("participants", entry.participant, "history")
        history = await self.api.read(History, *path, problem=board.problem, gpu=board.gpu)
        if history is None:
            return
        scores = [
            past.score_us
            for past in history.items
            if past.number < entry.number and past.counts and past.score_us is not None
        ]
        for overtaken in texts.newly_overtaken(entry, board, min(scores, default=None)):
            account = overtaken.participant_id
            if account in recipients and account != entry.participant_id:
                recipient = recipients[account]
                notice = texts.Notice(texts.overtaken_text(overtaken, entry, board))
                name = f"overtaken:{entry.submission}:{account}"
                thread = await self._chosen_thread(recipient, OVERTAKEN, overtaken.number)
                await self._send(recipient.discord, notice, name, thread)

    async def notify_deadlines(self) -> None:
        """Notify about deadlines that are less than a day away. Raises `Failed`."""
        if time.monotonic() - self._checked_at < NEAR_EVERY_S:
            return
        at = now()
        for slug, leaderboard in self.leaderboards.known.items():
            deadline_at = leaderboard.deadline_at if leaderboard.state == texts.ACTIVE else None
            if deadline_at and at < deadline_at <= at + timedelta(hours=NEAR_HOURS):
                await self._notify_deadline(slug, deadline_at)
        self._checked_at = time.monotonic()

    async def _notify_deadline(self, slug: str, deadline_at: datetime) -> None:
        notice = texts.Notice(texts.deadline_text(slug, deadline_at))
        for account, recipient in (await self._recipients(NEAR)).items():
            name = f"near:{slug}:{deadline_at.isoformat()}:{account}"
            if name not in self.sent_deadlines:
                thread = await self._chosen_thread(recipient, NEAR, slug)
                await self._send(recipient.discord, notice, name, thread)
                if len(self.sent_deadlines) >= SENT_DEADLINES_MAX:
                    self.sent_deadlines.clear()
                self.sent_deadlines.add(name)

    async def _chosen_thread(
        self, recipient: DiscordParticipant, preference: str, number_or_problem: int | str
    ) -> str | None:
        """Return the chosen thread; None for a direct message. Raises `Failed`."""
        if getattr(recipient.preferences, preference) != texts.THREAD:
            return None
        if isinstance(number_or_problem, int):
            return await self.sender.ledger.submission_thread(number_or_problem)
        return await self.sender.ledger.newest_thread(recipient.discord or "", number_or_problem)

    async def _send(
        self, user_id: str | None, notice: texts.Notice, name: str, thread: str | None = None
    ) -> None:
        """Notify a user once, in a thread or by direct message. Raises `Failed`."""
        assert user_id is not None, "only users of Discord are notified"
        await self.sender.create_once(name, lambda: self._deliver(user_id, notice, name, thread))

    async def _deliver(
        self, user_id: str, notice: texts.Notice, name: str, thread: str | None
    ) -> str:
        if thread is not None:
            # A message in a thread notifies nobody by itself; a direct message does.
            mentioning = notice._replace(text=f"<@{user_id}> {notice.text}")
            try:
                return await self.send(thread, user_id, mentioning, name)
            except Refused as refused:
                _log.info("%s is sent by direct message: %s", name, refused.reason)
        try:
            return await self.send_directly(user_id, notice, name)
        except Refused as refused:
            # Some users take no direct messages; the platform's pages show the same.
            _log.warning("%s cannot be delivered: %s", name, refused.reason)
            return ""

    async def send_directly(self, user_id: str, notice: texts.Notice, name: str) -> str:
        """Send a direct message under a name, and return its id. Raises `Refused`, `Failed`."""
        channel = await open_direct_channel(self.sender.client, user_id)
        return await self.send(channel, user_id, notice, name)

    async def send(self, room: str, user_id: str, notice: texts.Notice, name: str) -> str:
        """Send a message under a name, and return its id. Raises `Refused` and `Failed`."""

        async def send(text: str) -> str:
            message, nonce = notice._replace(text=text), message_nonce(name)
            return await send_notice(self.sender.client, room, user_id, message, nonce)

        return await self.sender.send_once(name, room, notice.text, send)

    async def _recipients(self, preference: str) -> dict[str, DiscordParticipant]:
        page = await self.api.read(DiscordParticipants, "edge", "participants", wish=preference)
        return {
            recipient.participant_id: recipient
            for recipient in (page.items if page else [])
            if texts.wants_notice(recipient, preference)
        }
