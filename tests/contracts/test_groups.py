"""Group commit: concurrent appends are stored as if each had come alone."""

import asyncio
from collections import Counter
from functools import partial

import pytest
from nats.aio.client import Client

from shared.event_log import Conflict, EventLog
from shared.nats.event_log import NatsLog
from shared.servers.nats import NatsServer
from tests.contracts.samples import has, ids, new_event, seqs
from tests.support.waits import eventually

MANY = 120


async def test_many_appends_at_once_are_all_stored(log: EventLog) -> None:
    events = [new_event(f"job.j{number}", 0) for number in range(MANY)]
    stored = await asyncio.gather(*map(log.append, events))
    assert sorted(stored) == list(range(1, MANY + 1))
    for number, (event, seq) in enumerate(zip(events, stored, strict=True)):
        (recorded,) = await log.history(f"job.j{number}")
        assert (recorded.seq, recorded.envelope) == (seq, event.envelope)


async def test_many_pairs_at_once_stay_together(log: EventLog) -> None:
    pairs = [[new_event(f"job.j{n}", 0), new_event(f"run.a1.r{n}", 0)] for n in range(MANY)]
    lasts = await asyncio.gather(*map(log.append_all, pairs))
    assert sorted(lasts) == list(range(2, 2 * MANY + 1, 2))
    for number, last in enumerate(lasts):
        assert seqs(await log.history(f"job.j{number}")) == [last - 1]
        assert seqs(await log.history(f"run.a1.r{number}")) == [last]


async def test_one_conflict_among_many_is_the_matter_of_its_writer(log: EventLog) -> None:
    await log.append(new_event("job.j7", 0))
    events = [new_event(f"job.j{number}", 0) for number in range(MANY)]
    results = await asyncio.gather(*map(log.append, events), return_exceptions=True)
    assert [n for n, result in enumerate(results) if isinstance(result, BaseException)] == [7]
    assert isinstance(results[7], Conflict)
    assert await log.last() == MANY


async def test_of_rivals_at_once_exactly_one_wins_each_time(log: EventLog) -> None:
    events = [new_event(f"job.j{number % 10}", 0) for number in range(MANY)]
    results = await asyncio.gather(*map(log.append, events), return_exceptions=True)
    assert Counter(type(result).__name__ for result in results) == {
        "int": 10,
        "Conflict": MANY - 10,
    }
    assert await log.last() == 10


async def test_what_is_repeated_among_many_is_stored_once(log: EventLog) -> None:
    again = new_event("job.again", 0)
    first = await log.append(again)
    events = [again, again, *(new_event(f"job.j{number}", 0) for number in range(MANY))]
    results = await asyncio.gather(*map(log.append, events))
    assert results[:2] == [first, first]
    assert await log.last() == MANY + 1


async def test_a_large_batch_among_many_is_stored_whole(log: EventLog) -> None:
    large = [new_event(f"problem.p{number}", 0) for number in range(500)]
    small = [new_event(f"job.j{number}", 0) for number in range(MANY)]
    work = [*map(log.append, small[::2]), log.append_all(large), *map(log.append, small[1::2])]
    stored = await asyncio.gather(*work)
    last = stored[len(small[::2])]
    assert seqs(await log.history("problem.p0")) == [last - 499]
    assert seqs(await log.history("problem.p499")) == [last]
    assert len(set(stored)) == len(stored)
    assert await log.last() == 500 + MANY


async def test_events_without_expectation_go_together_too(log: EventLog) -> None:
    notes = [new_event("run.a1.r1", None) for _ in range(MANY)]
    await asyncio.gather(*map(log.append, notes))
    assert sorted(ids(await log.history("run.a1.r1"))) == sorted(ids(notes))


async def test_a_writer_that_leaves_does_not_hold_up_the_others(log: EventLog) -> None:
    tasks = [
        asyncio.create_task(log.append(new_event(f"job.j{number}", 0))) for number in range(MANY)
    ]
    await asyncio.sleep(0)
    for task in tasks[::3]:
        task.cancel()
    results = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 30)
    stored = [result for result in results if isinstance(result, int)]
    assert len(stored) >= MANY - len(tasks[::3])
    assert len(set(stored)) == len(stored)


@pytest.mark.server
async def test_many_at_once_are_stored_in_groups(client: Client) -> None:
    log = NatsLog(client)
    await asyncio.gather(*(log.append(new_event(f"job.j{number}", 0)) for number in range(MANY)))
    assert log.counts.grouped > MANY // 2
    assert sum(log.counts.append.buckets) == MANY
    with pytest.raises(Conflict):
        await log.append(new_event("job.j1", 0))
    assert log.counts.conflicts == 1


@pytest.mark.server
async def test_a_batch_takes_what_comes_in_the_same_moment_with_it(client: Client) -> None:
    log = NatsLog(client)
    pair = [new_event("job.j1", 0), new_event("run.a1.r1", 0)]
    stored = await asyncio.gather(
        log.append(new_event("job.j2", 0)), log.append_all(pair), log.append(new_event("job.j3", 0))
    )
    assert list(stored) == [1, 3, 4]
    assert log.counts.grouped == 3


@pytest.mark.server
async def test_a_few_at_once_go_alone(client: Client) -> None:
    log = NatsLog(client)
    await asyncio.gather(*(log.append(new_event(f"job.j{number}", 0)) for number in range(5)))
    await log.append_all([new_event("job.j5", 0), new_event("run.a1.r1", 0)])
    assert log.counts.grouped == 0


@pytest.mark.long
@pytest.mark.server
async def test_groups_lose_and_double_nothing_when_the_server_is_killed(
    own_nats: NatsServer, client: Client
) -> None:
    log, stored = NatsLog(client), dict[str, int]()

    async def write(name: int) -> None:
        for number in range(40):
            pair = [new_event(f"job.w{name}n{number}", 0), new_event(f"run.a1.w{name}n{number}", 0)]
            last = await log.append_all(pair)
            stored.update({pair[0].envelope.id: last - 1, pair[1].envelope.id: last})

    writers = [asyncio.create_task(write(name)) for name in range(32)]
    for kill_at in (400, 1200):
        await eventually(partial(has, stored, kill_at), within_s=30)
        own_nats.kill()
        own_nats.start()
    await asyncio.wait_for(asyncio.gather(*writers), 60)
    assert log.counts.grouped > 0
    feed, seqs_by_id = log.follow(0), dict[str, int]()
    while len(seqs_by_id) < len(stored):
        seqs_by_id |= {
            event.envelope.id: event.seq for event in await asyncio.wait_for(feed.take(), 30)
        }
    await feed.close()
    assert seqs_by_id == stored
    assert sorted(seqs_by_id.values()) == list(range(1, 32 * 40 * 2 + 1))
