"""An agent may change its registration, but not grow the log by changing it without end."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import msgspec
import pytest

from scheduler.service import CHANGES_BURST, Heartbeat, Presence
from tests.scheduler.histories import OFFER
from tests.support.memory import MemoryBus
from tests.support.waits import eventually

MANY = 500


@pytest.fixture
async def bus() -> AsyncIterator[tuple[MemoryBus, Presence]]:
    bus, presence = MemoryBus(), Presence(15.0)
    watching = asyncio.create_task(presence.watch(bus))
    yield bus, presence
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


async def register(bus: MemoryBus, agent: str, fingerprint: str) -> None:
    registration = msgspec.structs.replace(OFFER.registration, fingerprint=fingerprint)
    heartbeat = Heartbeat(session="s", is_free=True, registration=registration)
    await bus.beat(agent, msgspec.json.encode(heartbeat), 30)


async def test_an_agent_that_changes_its_registration_without_end_is_named(
    bus: tuple[MemoryBus, Presence],
) -> None:
    beats, presence = bus
    seen = set()
    for number in range(MANY):
        await register(beats, "evil", str(number))
        if number % 3 == 0:
            await beats.leave("evil")
        await asyncio.sleep(0)
        seen |= {offer.registration.fingerprint for offer in presence.offers().values()}
    await eventually(lambda: "evil" in presence.misconduct)
    assert 1 <= len(seen) <= CHANGES_BURST + 1


async def test_an_agent_that_changes_its_registration_rarely_is_not_named(
    bus: tuple[MemoryBus, Presence],
) -> None:
    beats, presence = bus
    for number in range(5):
        await register(beats, "a1", str(number))
        await eventually(partial(has_heard, presence, str(number)))
    assert presence.misconduct == {}


def has_heard(presence: Presence, fingerprint: str) -> bool:
    """Return whether the agent offers this by now."""
    offer = presence.heard.get("a1")
    return offer is not None and offer.registration.fingerprint == fingerprint
