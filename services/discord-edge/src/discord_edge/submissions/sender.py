"""Sends submission requests to ingest so that neither a kill nor a lost answer loses one."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from discord_edge.background import BackgroundTasks, retry_until_done
from discord_edge.platform_api import PlatformApi
from discord_edge.postgres import PostgresTrackedSubmissions
from discord_edge.submissions.models import PendingSubmission, TrackedSubmission
from shared.errors import Refused

# How long a user may watch a command in progress.
SEND_S_MAX = 30.0
SendTask = asyncio.Task[list[TrackedSubmission]]

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
        if task.done():
            try:
                return task.result()
            except Refused:
                await retry_until_done(lambda: self.submissions.remove_pending(pending.key))
                raise
        # Ingest may have accepted it already: giving up would make the user send it twice.
        self._finish_later(pending, task)
        return None

    async def resume(self) -> None:
        """Repeat the requests of a killed process. Raises `Failed`."""
        for pending in await self.submissions.list_pending():
            task = asyncio.create_task(self._submit(pending), name=f"send {pending.key}")
            self._finish_later(pending, task)

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
            )
            for receipt in receipts.submissions
        ]
        await retry_until_done(lambda: self._store(pending, submissions))
        return submissions

    async def _store(
        self, pending: PendingSubmission, submissions: Sequence[TrackedSubmission]
    ) -> None:
        for submission in submissions:
            await self.submissions.add(submission)
        await self.submissions.remove_pending(pending.key)

    def _finish_later(self, pending: PendingSubmission, task: SendTask) -> None:
        self.tasks.start(self._finish(pending, task), f"late {pending.key}")

    async def _finish(self, pending: PendingSubmission, task: SendTask) -> None:
        try:
            submissions = await task
        except Refused as refused:
            _log.warning("command %s was refused: %s", pending.key, refused)
            await self.on_refused(pending, refused)
            # Only after the user was notified: Discord may be away longer than this process lives.
            await retry_until_done(lambda: self.submissions.remove_pending(pending.key))
        else:
            await self.on_accepted(submissions)
