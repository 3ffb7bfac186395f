"""How many submissions of a participant may be open: refused before they are accepted, exactly."""

import asyncio
from collections import Counter
from collections.abc import Sequence

import httpx
import pytest

from ingest.submissions.admission import AdmissionLimits
from shared import events
from shared.clock import new_id, now
from shared.event_log import NewEvent
from shared.nats.event_log import NatsLog
from shared.wire import EventMetadata, make_envelope
from tests.support.door import ADA, FINISHED, Door, Stores, opened, postgres_stores, taken_in
from tests.support.memory import MemoryLog

pytestmark = pytest.mark.server

OPEN_MAX = 3
LIMITS = AdmissionLimits(open_max=OPEN_MAX)
RIVALS = 24
GRACE = {"Warpboard-Participant": "grace"}


async def fill(door: Door) -> list[int]:
    """Submit as many as may be open, and return their numbers."""
    return [await door.number() for _ in range(OPEN_MAX)]


async def open_now(door: Door, headers: dict[str, str] = ADA) -> tuple[int, int]:
    answer = await door.http.get("/v1/quota", headers=headers)
    assert answer.status_code == 200, answer.text
    open_submissions = answer.json()["open_submissions"]
    return open_submissions["used"], open_submissions["limit"]


async def test_one_too_many_is_refused_until_another_has_ended() -> None:
    async with opened(MemoryLog(), limits=LIMITS) as door:
        first, *_ = await fill(door)
        before = len(door.log.since(0))
        answer = await door.submit()
        assert (answer.status_code, answer.json()["code"]) == (429, "too_many_open")
        assert int(answer.headers["retry-after"]) > 0
        assert "3 of your submissions are not over yet" in answer.json()["detail"]
        assert len(door.log.since(0)) == before
        assert (await door.submit(headers=GRACE)).status_code == 202
        await door.finish(first)
        assert (await door.submit()).status_code == 202
        assert (await door.submit()).status_code == 429


async def test_the_limit_is_100_unless_the_operator_sets_another() -> None:
    async with opened(MemoryLog()) as door:
        answers = [await door.submit() for _ in range(101)]
        assert Counter(answer.status_code for answer in answers) == {202: 100, 429: 1}
        assert answers[-1].json()["code"] == "too_many_open"


async def test_the_quota_says_how_many_are_open_and_may_be() -> None:
    async with opened(MemoryLog(), limits=LIMITS) as door:
        assert await open_now(door) == (0, OPEN_MAX)
        first, *_ = await fill(door)
        assert await open_now(door) == (OPEN_MAX, OPEN_MAX)
        assert await open_now(door, GRACE) == (0, OPEN_MAX)
        await door.finish(first)
        assert await open_now(door) == (OPEN_MAX - 1, OPEN_MAX)


async def test_several_gpu_types_are_all_counted_or_none() -> None:
    async with opened(MemoryLog(), limits=LIMITS) as door:
        assert (await door.submit(gpu=["CPU", "H100"])).status_code == 202
        answer = await door.submit(gpu=["CPU", "H100"])
        assert (answer.status_code, answer.json()["code"]) == (429, "too_many_open")
        assert "this request has 2" in answer.json()["detail"]
        assert await open_now(door) == (2, OPEN_MAX)
        assert (await door.submit()).status_code == 202


async def test_a_repeat_of_an_accepted_request_is_answered_at_the_limit() -> None:
    async with opened(MemoryLog(), limits=LIMITS) as door:
        key = ADA | {"Idempotency-Key": "k1"}
        first = await door.submit(headers=key)
        await fill_rest(door)
        repeated = await door.submit(headers=key)
        assert (first.status_code, repeated.status_code) == (202, 202)
        number = first.json()["submissions"][0]["number"]
        assert repeated.json()["submissions"][0]["number"] == number
        assert await open_now(door) == (OPEN_MAX, OPEN_MAX)


async def fill_rest(door: Door) -> None:
    while (await door.submit()).status_code == 202:
        pass


async def test_a_retry_by_an_operator_is_not_limited() -> None:
    async with opened(MemoryLog(), limits=LIMITS) as door:
        first, *_ = await fill(door)
        answer = await door.admin("POST", f"submissions/{first}/retry", reason="stuck")
        assert answer.status_code == 201, answer.text
        assert len(taken_in(door.log)) == OPEN_MAX + 1


async def race(doors: Sequence[Door]) -> Counter[int]:
    """Count the answers to many requests at once through all doors, and the accepted ones."""
    requests = [doors[index % len(doors)].submit() for index in range(RIVALS)]
    answers: list[httpx.Response] = await asyncio.gather(*requests)
    return Counter(answer.status_code for answer in answers)


async def test_concurrent_requests_never_open_one_too_many() -> None:
    async with opened(MemoryLog(), limits=LIMITS) as door:
        assert await race([door]) == {202: OPEN_MAX, 429: RIVALS - OPEN_MAX}
        assert len(taken_in(door.log)) == OPEN_MAX


async def test_concurrent_requests_to_two_processes_never_open_one_too_many(
    postgres_dsn: str, nats_log: NatsLog
) -> None:
    async with (
        postgres_stores(postgres_dsn) as stores,
        opened(nats_log, stores=stores, limits=LIMITS) as first,
        opened(nats_log, stores=stores, first=False, limits=LIMITS) as second,
    ):
        assert await race([first, second]) == {202: OPEN_MAX, 429: RIVALS - OPEN_MAX}
        assert await open_now(second) == (OPEN_MAX, OPEN_MAX)
        await end_all(nats_log)
        assert await open_now(second) == (0, OPEN_MAX)
        assert await race([first, second]) == {202: OPEN_MAX, 429: RIVALS - OPEN_MAX}


async def end_all(log: NatsLog) -> None:
    """End every submission in a real log as ranker would."""
    async with asyncio.timeout(30):
        recorded = await log.follow(0).take()
    for event in recorded:
        if isinstance(event.fact, events.SubmissionReceived):
            metadata = EventMetadata(new_id(), now(), "service:test", "test", "test")
            envelope = make_envelope(FINISHED, event.envelope.aggregate, metadata)
            await log.append(NewEvent(envelope, event.seq))


async def test_after_a_restart_only_open_submissions_are_looked_at() -> None:
    log, stores = MemoryLog(), Stores()
    async with opened(log, stores=stores, limits=LIMITS) as door:
        for _ in range(4 * OPEN_MAX):
            await door.finish(await door.number())
    opened_facts = [it.fact for it in log.since(0) if isinstance(it.fact, events.SubmissionsOpened)]
    ended = [submission for fact in opened_facts for submission in fact.ended]
    assert len(ended) == len(set(ended))
    assert len(opened_facts) - len(ended) <= OPEN_MAX, "the rest is at most the limit"
    async with opened(log, stores=stores, first=False, limits=LIMITS) as again:
        await fill(again)
        assert (await again.submit()).status_code == 429
