"""For how long an Idempotency-Key means the request that it came with."""

import asyncio
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ingest.taking_in import open_intake
from tests.support.door import taken_in

OTHER = b"def custom_kernel(data):\n    return None\n"


async def test_a_key_can_be_reused_after_a_day() -> None:
    async with open_intake() as intake:
        first = await intake.submit("k")
        intake.advance(hours=23, minutes=59)
        assert await intake.submit("k") == first
        assert await intake.refusal("k", OTHER) == "idempotency_key_reused"
        intake.advance(minutes=1)
        second = await intake.submit("k", source=OTHER)
        intake.advance(hours=23)
        assert await intake.submit("k", source=OTHER) == second
        assert await intake.refusal("k") == "idempotency_key_reused"
        intake.advance(hours=1)
        third = await intake.submit("k")
        assert len({*first, *second, *third}) == 6


async def test_two_concurrent_requests_with_an_old_key_are_one() -> None:
    async with open_intake() as intake:
        await intake.submit("k")
        intake.advance(days=2)
        ends = await asyncio.gather(*(intake.submit("k") for _ in range(8)))
        assert len({tuple(numbers) for numbers in ends}) == 1
        assert len(taken_in(intake.log)) == 2 * 2


async def test_keys_of_the_public_client_are_separate() -> None:
    async with open_intake() as intake:
        assert await intake.submit("k") != await intake.submit("k", via="popcorn")
        assert await intake.submit("k", via="popcorn") == await intake.submit("k", via="popcorn")


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 40), st.booleans()), min_size=1, max_size=8))
def test_a_key_means_one_request_a_day_whatever_happens(steps: list[tuple[int, bool]]) -> None:
    async def all_of_it() -> None:
        async with open_intake() as intake:
            began, numbers = None, list[int]()
            for hours, is_popcorn in steps:
                intake.advance(hours=hours)
                await intake.submit("k", via="popcorn") if is_popcorn else None
                got = await intake.submit("k")
                is_old = began is None or intake.at - began >= timedelta(hours=24)
                assert (got != numbers) == is_old
                began, numbers = (intake.at if is_old else began), got

    asyncio.run(all_of_it())
