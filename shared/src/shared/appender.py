"""Append facts with optimistic concurrency: each only to the history that it was decided on."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from shared.clock import now
from shared.decider import Append
from shared.event_log import EventLog, NewEvent
from shared.wire import EventMetadata, make_envelope


@dataclass(frozen=True)
class Appender:
    """Appends facts in the name of one actor."""

    log: EventLog
    actor: str
    clock: Callable[[], datetime] = now

    async def append(self, *appends: Append) -> int:
        """Append all facts or none; return the sequence of the last.

        Of several facts of one aggregate, only the first names a version. Errors: Conflict if
        someone else appended first; Failed.
        """
        at = self.clock()
        events = [
            NewEvent(
                make_envelope(
                    append.fact,
                    append.agg,
                    EventMetadata(append.id, at, self.actor, append.corr, append.cause),
                ),
                append.expected,
            )
            for append in appends
        ]
        if len(events) == 1:
            return await self.log.append(events[0])
        return await self.log.append_all(events)
