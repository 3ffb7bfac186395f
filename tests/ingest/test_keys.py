"""For how long an Idempotency-Key means the request that it came with."""

import asyncio
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ingest.taking_in import counter

OTHER = b"def custom_kernel(data):\n    return None\n"


async def test_a_key_is_good_for_a_day_and_then_for_another_request() -> None:
    async with counter() as found:
        first = await found.submit("k")
        found.pass_(hours=23, minutes=59)
        assert await found.submit("k") == first
        assert await found.refusal("k", OTHER) == "idempotency_key_reused"
        found.pass_(minutes=1)
        second = await found.submit("k", source=OTHER)
        found.pass_(hours=23)
        assert await found.submit("k", source=OTHER) == second
        assert await found.refusal("k") == "idempotency_key_reused"
        found.pass_(hours=1)
        third = await found.submit("k")
        assert len({*first, *second, *third}) == 6


async def test_two_at_once_under_a_key_that_is_old_are_one() -> None:
    async with counter() as found:
        await found.submit("k")
        found.pass_(days=2)
        ends = await asyncio.gather(*(found.submit("k") for _ in range(8)))
        assert len({tuple(one) for one in ends}) == 1
        assert len(found.log.since(0)) == 1 + 2 * 2


async def test_a_key_of_the_public_client_is_another_one() -> None:
    async with counter() as found:
        assert await found.submit("k") != await found.submit("k", via="popcorn")
        assert await found.submit("k", via="popcorn") == await found.submit("k", via="popcorn")


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 40), st.booleans()), min_size=1, max_size=8))
def test_a_key_means_one_request_a_day_whatever_happens(steps: list[tuple[int, bool]]) -> None:
    async def all_of_it() -> None:
        async with counter() as found:
            began, numbers = None, list[int]()
            for hours, is_popcorn in steps:
                found.pass_(hours=hours)
                await found.submit("k", via="popcorn") if is_popcorn else None
                got = await found.submit("k")
                is_old = began is None or found.at - began >= timedelta(hours=24)
                assert (got != numbers) == is_old
                began, numbers = (found.at if is_old else began), got

    asyncio.run(all_of_it())
