"""Facts are appended only to the history that they were decided on."""

import pytest

from shared.clock import now
from shared.event_log import Append, Appender, Conflict
from shared.events import PoolPaused, PoolResumed
from tests.support.memory import MemoryLog

AGG = "pool.CPU"


def pause(expected: int | None = 0) -> Append:
    return Append(AGG, PoolPaused(reason="checked"), expected, "operator", "CPU")


async def test_one_fact_is_appended_in_the_name_of_the_actor() -> None:
    log = MemoryLog()
    assert await Appender(log, "service:test", now).append(pause()) == 1
    (event,) = await log.history(AGG)
    assert (event.envelope.actor, event.envelope.cause) == ("service:test", "operator")


async def test_several_facts_are_appended_at_once() -> None:
    log = MemoryLog()
    resume = Append(AGG, PoolResumed(reason="well"), None, "operator", "CPU")
    assert await Appender(log, "service:test", now).append(pause(), resume) == 2


async def test_the_same_decision_is_one_event() -> None:
    log = MemoryLog()
    appender = Appender(log, "service:test", now)
    assert [await appender.append(pause()), await appender.append(pause())] == [1, 1]
    assert await log.last() == 1


async def test_a_history_that_moved_on_is_a_conflict() -> None:
    log = MemoryLog()
    appender = Appender(log, "service:test", now)
    await appender.append(pause())
    with pytest.raises(Conflict):
        await appender.append(Append(AGG, PoolResumed(reason="well"), 0, "another", "CPU"))
