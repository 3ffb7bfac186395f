"""Appends ranker's own events to the log, once each."""

import logging
from typing import NamedTuple

from shared.clock import now
from shared.decider import Append
from shared.event_log import Appender, Conflict, EventLog
from shared.events import Fact
from shared.ids import derive_id

logger = logging.getLogger(__name__)

ACTOR = "service:ranker"


class EventCause(NamedTuple):
    """Why an event is appended.

    Its id is derived from `effect`, by default the cause, so that repeating it changes nothing.
    `corr` is what it belongs to, by default its aggregate.
    """

    cause: str
    corr: str | None = None
    effect: str | None = None


async def append_event(log: EventLog, agg: str, fact: Fact, version: int, cause: EventCause) -> int:
    """Append to a history that is still at `version`; the new version, 0 on a conflict."""
    id_ = derive_id(cause.effect or cause.cause, type(fact).__name__)
    append = Append(agg, fact, version, cause.cause, cause.corr or agg, id_)
    try:
        return await Appender(log, ACTOR, now).append(append)
    except Conflict:
        logger.info("another process appended to %s after version %s", agg, version)
        return 0
