"""Sends submissions and reports on them until they finish, each once, even after a kill."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace

from discord_edge.background import PAUSE_S_MAX, PAUSE_S_MIN, BackgroundTasks, retry_until_done
from discord_edge.platform_api import DiscordUser, PlatformApi
from discord_edge.submissions.models import (
    PendingSubmission,
    Status,
    TrackedSubmission,
    evolve,
    first_status,
)
from discord_edge.submissions.postgres import PostgresTrackedSubmissions
from discord_edge.submissions.reply import StatusListener
from discord_edge.submissions.report import fetch_report, headline
from discord_edge.submissions.threads import SubmissionThreads
from discord_edge.wording import message_nonce
from shared.api.submissions import FullSubmission
from shared.errors import Failed, Refused
from shared.presentation.result_card import make_result_card

# Edits count towards the same rate limit as all other messages of the channel.
EDIT_EVERY_S = 2.0
# Longer than any submission may take; afterwards it is no longer tracked.
FOLLOW_S_MAX = 48 * 3600.0
# How long a user may watch a command in progress.
SEND_S_MAX = 30.0

_log = logging.getLogger(__name__)


@dataclass
class SubmissionSender:
    """Stores each request until its answer is stored, and repeats it until there is an answer.

    When an answer comes too late for its command, `on_accepted` tracks the submissions and
    `on_refused` notifies the user.
    """

    api: PlatformApi
    submissions: PostgresTrackedSubmissions
    on_accepted: Callable[[list[TrackedSubmission]], Awaitable[None]]
    on_refused: Callable[[PendingSubmission, Refused], Awaitable[None]]
    send_s_max: float = SEND_S_MAX
    tasks: BackgroundTasks = field(default_factory=BackgroundTasks)

    async def send(self, pending: PendingSubmission) -> list[TrackedSubmission] | None:
        """Send a request under its key, and return the submissions that ingest accepted.

        None means that there is no answer yet; the user is notified later. Raises `Refused` and
        `Failed`.
        """
        await self.submissions.add_pending(pending)
        task = asyncio.create_task(self._submit(pending), name=f"send {pending.key}")
        await asyncio.wait({task}, timeout=self.send_s_max)
        if not task.done():
            # Ingest may have accepted it already: giving up would make the user send it twice.
            self.tasks.start(self._finish(pending, task), f"late {pending.key}")
            return None
        try:
            return task.result()
        except Refused:
            await retry_until_done(lambda: self.submissions.remove_pending(pending.key))
            raise

    async def resume(self) -> None:
        """Repeat the requests of a killed process. Raises `Failed`."""
        for pending in await self.submissions.list_pending():
            self.tasks.start(self._finish(pending, self._submit(pending)), f"late {pending.key}")

    async def _submit(self, pending: PendingSubmission) -> list[TrackedSubmission]:
        api = self.api.on_behalf_of(pending.user, pending.key)
        receipts = await retry_until_done(lambda: api.submit(pending.request))
        submissions = [
            TrackedSubmission(
                number=receipt.number,
                person=str(pending.user.id),
                channel=pending.channel,
                problem=pending.request.problem,
                gpu=receipt.gpu,
                mode=pending.request.mode,
                first=receipts.submissions[0].number,
                case=pending.request.case,
                runner=pending.request.runner,
            )
            for receipt in receipts.submissions
        ]

        async def store() -> None:
            for submission in submissions:
                await self.submissions.add(submission)
            await self.submissions.remove_pending(pending.key)

        await retry_until_done(store)
        return submissions

    async def _finish(
        self, pending: PendingSubmission, answer: Awaitable[list[TrackedSubmission]]
    ) -> None:
        try:
            submissions = await answer
        except Refused as refused:
            _log.warning("command %s was refused: %s", pending.key, refused)
            await self.on_refused(pending, refused)
            # Only after the user was notified: Discord may be away longer than this process lives.
            await retry_until_done(lambda: self.submissions.remove_pending(pending.key))
        else:
            await self.on_accepted(submissions)


def _ignore_status(_: Status, __: str) -> None:
    pass


@dataclass
class SubmissionTracker:
    """Tracks every open submission in a task of its own."""

    threads: SubmissionThreads
    tasks: BackgroundTasks = field(default_factory=BackgroundTasks)
    _trackers: dict[int, "_Tracker"] = field(default_factory=dict)
    _numbers: set[int] = field(default_factory=set)

    async def resume(self) -> None:
        """Track the submissions that the previous process left open. Raises `Failed`."""
        for submission in self._claim(await self.threads.submissions.list_open()):
            self._start(submission, _ignore_status)

    async def track(
        self, submissions: Sequence[TrackedSubmission], listener: StatusListener = _ignore_status
    ) -> None:
        """Open the thread of a command, now or later, and track its submissions.

        Submissions that are tracked already, because a command arrived twice, are skipped.
        """
        if not (submissions := self._claim(submissions)):
            return
        try:
            submissions = await self.threads.open_thread(submissions)
        except (Failed, Refused) as error:
            number = submissions[0].number
            _log.warning("the thread of submission %d is opened later: %s", number, error)
        for submission in submissions:
            self._start(submission, listener)

    def _claim(self, submissions: Sequence[TrackedSubmission]) -> list[TrackedSubmission]:
        """Return the submissions that no other task tracks, and mark them as tracked."""
        new = [submission for submission in submissions if submission.number not in self._numbers]
        self._numbers |= {submission.number for submission in new}
        return new

    def set_cancelling(self, number: int, *, is_cancelling: bool) -> None:
        """Show that a user is cancelling a submission, before the log says so."""
        if number in self._trackers:
            self._trackers[number].set_cancelling(is_cancelling=is_cancelling)

    def _start(self, submission: TrackedSubmission, listener: StatusListener) -> None:
        self.tasks.start(self._track(submission, listener), f"follow {submission.number}")

    async def _track(self, submission: TrackedSubmission, listener: StatusListener) -> None:
        number = submission.number
        end_reason, tracker = "told", _Tracker(self.threads, submission, listener)
        self._trackers[number] = tracker
        try:
            async with asyncio.timeout(FOLLOW_S_MAX):
                await tracker.run()
        except Refused as refused:
            end_reason = refused.code
            _log.warning("submission %d is no longer tracked: %s", number, refused.reason)
        except TimeoutError:
            end_reason = "too_long"
        finally:
            del self._trackers[number]
        await retry_until_done(lambda: self.threads.submissions.save(number, "ended", end_reason))
        self._numbers.discard(number)
        if thread := tracker.room:
            # Close a thread that has no open submissions.
            open_submissions = await retry_until_done(self.threads.submissions.list_open)
            if all(other.thread != thread for other in open_submissions):
                with contextlib.suppress(Refused):
                    await retry_until_done(lambda: self.threads.close(thread))


class _Tracker:
    def __init__(
        self, threads: SubmissionThreads, submission: TrackedSubmission, listener: StatusListener
    ) -> None:
        self._threads, self._submission, self._listener = threads, submission, listener
        self._api = threads.api.on_behalf_of(DiscordUser(int(submission.person)))
        self._status = first_status(submission)
        self._shown_text, self.room, self._is_cancelling = "", "", False
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Track the submission to its end. Raises `Refused` if no message can be sent."""
        message = await self._open_status_message()
        self._set_status(self._status)
        editing = asyncio.create_task(self._keep_editing(message))
        try:
            await self._listen()
        finally:
            editing.cancel()
            await asyncio.gather(editing, return_exceptions=True)
        path = ("submissions", self._submission.number)
        result = await retry_until_done(lambda: self._api.get(FullSubmission, *path))
        text, is_good = headline(result), make_result_card(result).is_good
        self._set_status(replace(self._status, now=text, is_over=True, is_good=is_good))
        if message:
            await self._finish(message, result)

    def set_cancelling(self, *, is_cancelling: bool) -> None:
        """Show that a user is cancelling the submission, or that this did not succeed."""
        self._is_cancelling = is_cancelling
        # Without a channel yet, the first message will show it.
        if self.room:
            self._set_status(self._status)

    def _set_status(self, status: Status) -> None:
        self._status = status
        self._changed.set()
        self._listener(self._current_status, self.room)

    @property
    def _current_status(self) -> Status:
        is_cancelling = self._status.is_cancelling or self._is_cancelling
        return replace(self._status, is_cancelling=is_cancelling)

    async def _save(self, name: str, value: str) -> None:
        number = self._submission.number
        await retry_until_done(lambda: self._threads.submissions.save(number, name, value))

    async def _finish(self, message: str, result: FullSubmission) -> None:
        """Send the report once, and edit the status message a last time. Raises `Refused`."""
        submission = self._submission
        if submission.report is None:
            card = await retry_until_done(lambda: fetch_report(self._api, result))
            nonce = message_nonce(f"{submission.number}:report")
            report = await self._send(
                lambda room: self._threads.send_report(room, card, nonce, submission)
            )
            await self._save("report", report)
        status = self._current_status
        with contextlib.suppress(Refused):
            await retry_until_done(
                lambda: self._threads.edit_status(self.room, message, status, submission)
            )

    async def _open_status_message(self) -> str:
        """Return the id of the status message, a new one the first time.

        It is "" if the user sees the answer to the command and can be reached in no other way.
        """
        submission = self._submission
        try:
            self.room = submission.thread or ""
            if not self.room:
                self.room = await retry_until_done(lambda: self._threads.open_late(submission))
            return submission.status or await self._send_status()
        except Refused as refused:
            if self._listener is _ignore_status:
                raise
            number, reason = submission.number, refused.reason
            _log.info("submission %d is shown in the answer only: %s", number, reason)
        self.room = ""
        return ""

    async def _send_status(self) -> str:
        submission, text = self._submission, self._status.text
        nonce = message_nonce(f"{submission.number}:status")
        self._shown_text = text
        message = await self._send(
            lambda room: self._threads.send_status(room, text, nonce, submission)
        )
        await self._save("status", message)
        return message

    async def _send(self, send: Callable[[str], Awaitable[str]]) -> str:
        """Send to the thread, or by direct message if the thread is gone; return the id."""
        try:
            return await retry_until_done(lambda: send(self.room))
        except Refused as refused:
            number, reason = self._submission.number, refused.reason
            _log.info("submission %d continues by direct message: %s", number, reason)
        self.room = await retry_until_done(lambda: self._threads.direct_channel(self._submission))
        await self._save("thread", self.room)
        return await retry_until_done(lambda: send(self.room))

    async def _listen(self) -> None:
        """Apply the events of the stream until it ends. Raises `Refused`."""
        pause_s, number = PAUSE_S_MIN, self._submission.number
        while True:
            place = self._status.place
            try:
                async for message in self._api.events(number, place):
                    if message.kind == "end":
                        return
                    self._set_status(evolve(self._status, message.kind, message.data))
            except Failed as failed:
                _log.info("the stream of submission %d is opened again: %s", number, failed)
            has_progressed = self._status.place > place
            pause_s = PAUSE_S_MIN if has_progressed else min(2 * pause_s, PAUSE_S_MAX)
            await asyncio.sleep(pause_s)

    async def _keep_editing(self, message: str) -> None:
        """Show status changes, at most one edit in two seconds."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            began_at, status = time.monotonic(), self._current_status
            if message and status.text != self._shown_text:
                try:
                    await self._threads.edit_status(self.room, message, status, self._submission)
                    self._shown_text = status.text
                except (Failed, Refused) as error:
                    _log.info("an edit is skipped: %s", error)
            await asyncio.sleep(max(0.0, EDIT_EVERY_S - (time.monotonic() - began_at)))
