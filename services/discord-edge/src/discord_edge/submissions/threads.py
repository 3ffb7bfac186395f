"""Threads and messages about submissions, sent with the bot's own token, which never expires."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import discord

from discord_edge.bot.discord_py import (
    BODY_MAX,
    ApplicationEmojis,
    build_embed,
    build_files,
    connected,
    find_own_message,
    is_own,
    open_direct_channel,
)
from discord_edge.platform_api import DiscordUser, PlatformApi
from discord_edge.submissions.models import Status, TrackedSubmission
from discord_edge.submissions.postgres import PostgresTrackedSubmissions
from discord_edge.submissions.reply import cancel_buttons, has_cancel_button, report_buttons
from discord_edge.wording import Card, fit_attachments
from shared.api.accounts import Preferences
from shared.errors import Refused

ARCHIVE_MINUTES: Literal[1440] = 1440
TOO_MANY_THREADS = 160006
THREAD_NAME_MAX = 100
# Discord allows 1000; the remaining ones are for other uses of the server.
ACTIVE_MAX = 900
# The values of the preference `threads`; any other value means one thread per command.
DEFAULT: Literal["default"] = "default"
PER_PROBLEM = "per_problem"

_log = logging.getLogger(__name__)


class SubmissionThreads:
    """Finds or opens the threads of submissions, stores their ids, and sends their messages.

    Every method raises `Failed` for what may work later and `Refused` for what is gone for good.
    With `per_problem`, users have one thread per problem unless they chose otherwise. On a server
    that is close to Discord's limit of active threads, all users have.
    """

    def __init__(
        self,
        client: discord.Client,
        app_emojis: ApplicationEmojis,
        api: PlatformApi,
        submissions: PostgresTrackedSubmissions,
        *,
        per_problem: bool,
    ) -> None:
        self._client, self._app_emojis, self.api = client, app_emojis, api
        self.submissions, self._per_problem = submissions, per_problem
        # Names of threads that may exist because the answer about their creation was lost.
        self._uncertain_names: set[str] = set()
        # Late submissions take turns, so that those of one command open one thread.
        self._lock = asyncio.Lock()

    async def open_thread(
        self, submissions: Sequence[TrackedSubmission]
    ) -> list[TrackedSubmission]:
        """Return the submissions of a command with their stored thread."""
        first = submissions[0]
        if await self._is_shared(first):
            thread = await self._reopen_previous(first)
            thread = thread or await self._open(first, shared_thread_name(first))
        else:
            thread = await self._open(first, thread_name(submissions))
        for submission in submissions:
            await self.submissions.save(submission.number, "thread", thread)
        return [replace(submission, thread=thread) for submission in submissions]

    async def open_late(self, submission: TrackedSubmission) -> str:
        """Return the thread of a submission that could not be opened with its command."""
        async with self._lock:
            group = await self.submissions.list_group(submission.first)
            thread = next((other.thread for other in group if other.thread is not None), None)
            if thread is None:
                [first, *_] = await self.open_thread(group)
                assert first.thread is not None, "the thread was just opened"
                return first.thread
            await self.submissions.save(submission.number, "thread", thread)
            return thread

    async def _is_shared(self, submission: TrackedSubmission) -> bool:
        """Whether the thread is shared by all submissions of the user and problem."""
        if await self._count_active(submission.channel) > ACTIVE_MAX:
            return True
        api = self.api.on_behalf_of(DiscordUser(int(submission.person)))
        try:
            choice = (await api.get(Preferences, "me", "preferences")).threads
        except Refused as refused:
            _log.info("no preferences for #%d: %s", submission.number, refused.reason)
            choice = DEFAULT
        return self._per_problem if choice == DEFAULT else choice == PER_PROBLEM

    async def _reopen_previous(self, submission: TrackedSubmission) -> str | None:
        """Return the newest thread of the user and problem, open again. Raises `Failed`."""
        thread = await self.submissions.find_previous_thread(submission)
        if thread is None:
            return None
        try:
            await self._reopen(thread, submission)
        except Refused as refused:
            _log.info("thread %s cannot be used again: %s", thread, refused.reason)
            return None
        return thread

    async def _count_active(self, channel: str) -> int:
        """Return how many threads are open on the server, as far as Discord told us."""
        async with connected(self._client):
            guild = getattr(await self._fetch_channel(channel), "guild", None)
        return len(guild.threads) if isinstance(guild, discord.Guild) else 0

    async def _reopen(self, room: str, submission: TrackedSubmission) -> None:
        """Reopen a thread for its user; direct messages and locked threads are refused."""
        async with connected(self._client):
            thread = await self._fetch_channel(room)
            if not isinstance(thread, discord.Thread) or thread.locked:
                raise Refused("discord_refused", "not a thread, or a locked one")
            if thread.archived:
                await thread.edit(archived=False)
            # A user who left the thread cannot return without this.
            await thread.add_user(discord.Object(int(submission.person)))

    async def _open(self, submission: TrackedSubmission, name: str) -> str:
        """Open a private thread, or fall back to the user's direct messages. Returns its id."""
        async with connected(self._client):
            parent = await self._fetch_channel(submission.channel)
            if not isinstance(parent, discord.TextChannel):
                return await self.direct_channel(submission)
            try:
                thread = await self._find_or_create_thread(parent, name)
            except discord.HTTPException as error:
                if not isinstance(error, discord.Forbidden) and error.code != TOO_MANY_THREADS:
                    raise
                self._uncertain_names.discard(name)
                return await self.direct_channel(submission)
            await thread.add_user(discord.Object(int(submission.person)))
        return str(thread.id)

    async def _find_or_create_thread(
        self, parent: discord.TextChannel, name: str
    ) -> discord.Thread:
        """Return the thread that a lost answer left behind, or a new one."""
        threads = parent.threads
        if name in self._uncertain_names:
            # The gateway, which would have announced the thread, may have been away as well.
            active = await parent.guild.active_threads()
            threads = [thread for thread in active if thread.parent_id == parent.id]
        for thread in threads:
            if thread.name == name and is_own(self._client, thread.owner_id):
                return thread
        self._uncertain_names.add(name)
        thread = await parent.create_thread(
            name=name,
            type=discord.ChannelType.private_thread,
            auto_archive_duration=ARCHIVE_MINUTES,
            invitable=False,
        )
        self._uncertain_names.discard(name)
        return thread

    async def direct_channel(self, submission: TrackedSubmission) -> str:
        """Return the channel of the user's direct messages."""
        return await open_direct_channel(self._client, submission.person)

    async def send_status(
        self, room: str, text: str, nonce: str, submission: TrackedSubmission
    ) -> str:
        """Send the status message with its cancel button, unless it exists; return its id."""
        channel, view = self._channel(room), cancel_buttons([submission])
        async with connected(self._client):
            # Discord remembers a nonce for minutes, and may be away for longer.
            existing = await find_own_message(
                self._client, room, lambda message: has_cancel_button(message, submission)
            )
            text = self._app_emojis.insert(text)
            return existing or str((await channel.send(text, nonce=nonce, view=view)).id)

    async def edit_status(
        self, room: str, message: str, status: Status, submission: TrackedSubmission
    ) -> None:
        """Show the current status; the cancel button disappears once it makes no sense."""
        async with connected(self._client):
            partial = self._channel(room).get_partial_message(int(message))
            text = self._app_emojis.insert(status.text)
            view: discord.ui.View | None = discord.utils.MISSING
            if status.is_over:
                view = None
            elif status.is_cancelling:
                view = cancel_buttons([submission], {submission.number})
            await partial.edit(content=text, view=view)

    async def send_report(
        self, room: str, card: Card, nonce: str, submission: TrackedSubmission
    ) -> str:
        """Send the report, unless it exists, and return its id."""
        async with connected(self._client):
            existing = await find_own_message(
                self._client,
                room,
                lambda message: [embed.title for embed in message.embeds[:1]] == [card.title],
            )
            if existing is not None:
                return existing
            guild = getattr(self._client.get_channel(int(room)), "guild", None)
            bytes_max = discord.utils.DEFAULT_FILE_SIZE_LIMIT_BYTES
            if isinstance(guild, discord.Guild):
                bytes_max = guild.filesize_limit
            card = fit_attachments(card, bytes_max)
            embed = build_embed(card)
            embed.description = self._app_emojis.insert(embed.description or "", BODY_MAX)
            message = await self._channel(room).send(
                embed=embed, files=build_files(card), nonce=nonce, view=report_buttons(submission)
            )
            return str(message.id)

    async def close(self, room: str) -> None:
        """Close a thread; a message reopens it. Direct messages stay as they are."""
        async with connected(self._client):
            thread = self._client.get_channel(int(room))
            if isinstance(thread, discord.Thread) and not thread.archived:
                await thread.edit(archived=True)

    def _channel(self, room: str) -> discord.PartialMessageable:
        return self._client.get_partial_messageable(int(room))

    async def _fetch_channel(self, identity: str) -> object:
        channel = self._client.get_channel(int(identity))
        return channel or await self._client.fetch_channel(int(identity))


def thread_name(submissions: Sequence[TrackedSubmission]) -> str:
    """Name the thread of a command; the number makes the name unique.

    >>> thread_name([TrackedSubmission(7, "1", "2", "sort", "CPU", "test")])
    '#7 sort test CPU'
    """
    first = submissions[0]
    gpus = " ".join(submission.gpu for submission in submissions)
    return f"#{first.number} {first.problem} {first.mode} {gpus}"[:THREAD_NAME_MAX]


def shared_thread_name(first: TrackedSubmission) -> str:
    """Name the thread of a user and problem after its first submission.

    >>> shared_thread_name(TrackedSubmission(7, "1", "2", "sort", "CPU", "test"))
    'sort since #7'
    """
    since = f" since #{first.number}"
    return first.problem[: THREAD_NAME_MAX - len(since)] + since
