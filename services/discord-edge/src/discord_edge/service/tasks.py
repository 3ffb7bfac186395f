"""What goes on in the background: a mistake ends one task, not the others, and is not silent."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

_log = logging.getLogger(__name__)


class Tasks(set[asyncio.Task[None]]):
    """Tasks that nobody waits for; one that is over is in it no more."""

    def begin(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Let it be done; what ends by a mistake is logged under the name."""
        task = asyncio.create_task(work, name=name)
        self.add(task)
        task.add_done_callback(self._left)

    async def stop(self) -> None:
        """Leave off; the next process goes on."""
        for task in self:
            task.cancel()
        await asyncio.gather(*self, return_exceptions=True)

    def _left(self, task: "asyncio.Task[None]") -> None:
        self.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("%s ended: the next start goes on", task.get_name(), exc_info=error)
