"""Background tasks, and attempts that are repeated until they succeed."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from shared.errors import Failed, Refused

PAUSE_S_MIN, PAUSE_S_MAX = 0.5, 20.0
T = TypeVar("T")

_log = logging.getLogger(__name__)


class BackgroundTasks(set[asyncio.Task[None]]):
    """The running tasks that nobody awaits; finished tasks are removed."""

    def start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run a coroutine; an exception is logged under the task's name."""
        task = asyncio.create_task(work, name=name)
        self.add(task)
        task.add_done_callback(self._remove)

    async def stop(self) -> None:
        """Cancel all tasks; the next process resumes their work."""
        for task in self:
            task.cancel()
        await asyncio.gather(*self, return_exceptions=True)

    def _remove(self, task: "asyncio.Task[None]") -> None:
        self.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("%s failed: the next start resumes it", task.get_name(), exc_info=error)


async def retry_until_done(
    attempt: Callable[[], Awaitable[T]], pause_s_max: float = PAUSE_S_MAX
) -> T:
    """Repeat an attempt that raises `Failed`, with growing pauses. Raises `Refused`."""
    pause_s = PAUSE_S_MIN
    while True:
        try:
            return await attempt()
        except Failed as failed:
            _log.warning("trying again in %.1f s: %s", pause_s, failed)
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, pause_s_max)


async def repeat_with_backoff(
    work: Callable[[], Awaitable[None]], every_s: float, subject: str
) -> None:
    """Do something again and again, for ever; after failures, with pauses that grow to 20 s."""
    pause_s = every_s
    while True:
        await asyncio.sleep(pause_s)
        try:
            await work()
        except (Failed, Refused) as error:
            pause_s = min(2 * pause_s, PAUSE_S_MAX)
            _log.warning("%s: trying again in %.1f s: %s", subject, pause_s, error)
        else:
            pause_s = every_s
