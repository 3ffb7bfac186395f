"""A call is made once for all who ask for it at the same time."""

import asyncio

import pytest

from shared.single_flight import SingleFlight


class Calls:
    """Counts calls, which wait until they are released."""

    def __init__(self) -> None:
        self.count = 0
        self.released = asyncio.Event()

    async def call(self) -> int:
        self.count += 1
        number = self.count
        await self.released.wait()
        return number


async def test_who_asks_during_a_call_joins_it() -> None:
    calls, flight = Calls(), SingleFlight[str, int]()
    waiting = [asyncio.create_task(flight.join("key", calls.call)) for _ in range(3)]
    await asyncio.sleep(0)
    assert "key" in flight
    calls.released.set()
    assert await asyncio.gather(*waiting) == [1, 1, 1]
    assert len(flight) == 0
    assert await flight.join("key", calls.call) == 2


async def test_different_keys_are_different_calls() -> None:
    calls, flight = Calls(), SingleFlight[str, int]()
    calls.released.set()
    both = flight.join("one", calls.call), flight.join("two", calls.call)
    assert list(await asyncio.gather(*both)) == [1, 2]


async def test_the_call_goes_on_when_who_asked_first_is_cancelled() -> None:
    calls, flight = Calls(), SingleFlight[str, int]()
    first = asyncio.create_task(flight.join("key", calls.call))
    await asyncio.sleep(0)
    second = asyncio.create_task(flight.join("key", calls.call))
    await asyncio.sleep(0)
    first.cancel()
    calls.released.set()
    assert await second == 1


async def test_an_error_is_raised_for_all_and_then_forgotten() -> None:
    async def fail() -> int:
        raise ValueError("no")

    flight = SingleFlight[str, int]()
    for result in await asyncio.gather(
        flight.join("key", fail), flight.join("key", fail), return_exceptions=True
    ):
        assert isinstance(result, ValueError)
    with pytest.raises(ValueError, match="no"):
        await flight.join("key", fail)


async def test_all_calls_can_be_cancelled() -> None:
    calls, flight = Calls(), SingleFlight[str, int]()
    joined = [asyncio.create_task(flight.join(key, calls.call)) for key in ("one", "two")]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    flight.cancel()
    results = await asyncio.gather(*joined, return_exceptions=True)
    assert all(isinstance(result, asyncio.CancelledError) for result in results)
