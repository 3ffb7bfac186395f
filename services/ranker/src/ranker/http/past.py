"""Folds the past from the archive, for reads as of an instant."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from ranker.archive.postgres import ArchiveReader
from shared.errors import Failed, Refused
from shared.event_log import RecordedEvent

WAIT_S_MAX = 5.0
# Events folded before other requests get a turn.
EVENTS_PER_TURN = 500

PastEvents = Awaitable[tuple[int, Sequence[RecordedEvent]]]


class PastFolds:
    """Folds one past state at a time, because each reads the whole archive; `kind` names them."""

    def __init__(self, archive: ArchiveReader | None, kind: str) -> None:
        self._archive = archive
        self._kind = kind
        self._turn = asyncio.Lock()

    async def fold(
        self,
        read: Callable[[ArchiveReader], PastEvents],
        fold_event: Callable[[RecordedEvent], None],
    ) -> int:
        """Fold the events of an instant and return the last sequence then.

        Raises Refused or Failed.
        """
        if self._archive is None:
            reason = f"past {self._kind} are not supported: this ranker has no archive"
            raise Refused("not_supported", reason, "as_of")
        try:
            async with asyncio.timeout(WAIT_S_MAX):
                await self._turn.acquire()
        except TimeoutError as late:
            raise Failed(f"too many requests for past {self._kind}; try again") from late
        try:
            seq, events = await read(self._archive)
            for index, event in enumerate(events):
                if index % EVENTS_PER_TURN == 0:
                    await asyncio.sleep(0)
                fold_event(event)
        finally:
            self._turn.release()
        return seq
