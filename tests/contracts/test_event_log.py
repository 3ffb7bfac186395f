"""Contract of the log, in memory and on JetStream."""

import asyncio

import pytest

from shared.event_log import Conflict, EventLog, Gap, NewEvent
from shared.wire import EVENT_BYTES_MAX
from tests.contracts.samples import JOB, RUN, ids, new_event, seqs, take_events


async def test_an_event_comes_back_as_it_was_written(log: EventLog) -> None:
    event = new_event(JOB, 0)
    seq = await log.append(event)
    (recorded,) = await log.history(JOB)
    assert recorded.seq == seq
    assert recorded.envelope == event.envelope


async def test_a_second_writer_gets_a_conflict(log: EventLog) -> None:
    first = await log.append(new_event(JOB, 0))
    with pytest.raises(Conflict) as caught:
        await log.append(new_event(JOB, 0))
    assert (caught.value.aggregate, caught.value.expected) == (JOB, 0)
    assert await log.append(new_event(JOB, first)) == first + 1


async def test_an_expectation_beyond_the_history_is_a_conflict(log: EventLog) -> None:
    first = await log.append(new_event(JOB, 0))
    with pytest.raises(Conflict):
        await log.append(new_event(JOB, first + 5))


async def test_a_repeated_append_is_stored_once_even_if_others_followed(log: EventLog) -> None:
    mine = new_event(JOB, 0)
    first = await log.append(mine)
    await log.append(new_event(RUN, 0))
    second = await log.append(new_event(JOB, first))
    assert await log.append(mine) == first
    assert seqs(await log.history(JOB)) == [first, second]


async def test_a_history_is_read_on_from_where_it_was_left(log: EventLog) -> None:
    first = await log.append(new_event(JOB, 0))
    assert await log.history(JOB, first) == []
    await log.append(new_event(RUN, 0))
    assert await log.history(JOB, first) == []
    second = await log.append(new_event(JOB, first))
    assert seqs(await log.history(JOB, first)) == [second]


async def test_an_event_without_expectation_is_stored_once_by_its_id(log: EventLog) -> None:
    note = new_event(RUN, None)
    first = await log.append(note)
    await log.append(new_event(RUN, first))
    assert await log.append(note) == first
    assert await log.last() == first + 1


async def test_an_event_without_expectation_fits_any_history(log: EventLog) -> None:
    await log.append(new_event(RUN, 0))
    assert await log.append(new_event(RUN, None)) == 2


async def test_an_event_too_large_is_refused_before_it_is_sent(log: EventLog) -> None:
    with pytest.raises(ValueError, match="store the data in a blob"):
        await log.append(new_event(JOB, 0, reason="x" * EVENT_BYTES_MAX))
    assert await log.last() == 0


async def test_an_event_of_almost_the_limit_is_stored(log: EventLog) -> None:
    bare = len(new_event(JOB, 0, reason="").envelope.data)
    await log.append(new_event(JOB, 0, reason="x" * (EVENT_BYTES_MAX - 2048 - bare)))
    assert len(await log.history(JOB)) == 1


async def test_a_batch_is_stored_in_its_order(log: EventLog) -> None:
    await log.append(new_event("job.other", 0))
    pair = [new_event(JOB, 0), new_event(RUN, 0)]
    last = await log.append_all(pair)
    assert last == 3
    assert [seqs(await log.history(aggregate)) for aggregate in (JOB, RUN)] == [[2], [3]]


async def test_a_batch_may_be_repeated(log: EventLog) -> None:
    pair = [new_event(JOB, 0), new_event(RUN, 0)]
    last = await log.append_all(pair)
    await log.append(new_event(JOB, 1))
    assert await log.append_all(pair) == last
    assert await log.last() == 3


async def test_a_batch_with_one_conflict_stores_nothing(log: EventLog) -> None:
    await log.append(new_event(RUN, 0))
    with pytest.raises(Conflict):
        await log.append_all([new_event(JOB, 0), new_event(RUN, 0)])
    assert await log.history(JOB) == []
    assert await log.last() == 1


async def test_a_batch_expects_what_was_before_it(log: EventLog) -> None:
    first = await log.append(new_event(JOB, 0))
    batch = [new_event(JOB, first), new_event(JOB, None), new_event(JOB, None)]
    assert await log.append_all(batch) == 4
    assert ids(await log.history(JOB))[1:] == ids(batch)


async def test_a_batch_that_shares_an_event_with_another_is_a_conflict(log: EventLog) -> None:
    shared = new_event(RUN, None)
    await log.append(shared)
    with pytest.raises(Conflict):
        await log.append_all([new_event(JOB, 0), shared])
    assert await log.history(JOB) == []


async def test_a_batch_whose_first_event_stands_alone_is_a_conflict(log: EventLog) -> None:
    lone = new_event(JOB, 0)
    await log.append(lone)
    with pytest.raises(Conflict):
        await log.append_all([lone, new_event(RUN, 0)])
    assert await log.history(RUN) == []


async def test_a_batch_holds_a_thousand_events(log: EventLog) -> None:
    batch = [new_event(f"job.j{number}", 0) for number in range(1000)]
    assert await log.append_all(batch) == 1000
    assert seqs(await log.history("job.j999")) == [1000]


async def test_of_two_rival_batches_one_is_stored(log: EventLog) -> None:
    await log.append(new_event(JOB, 0))
    rivals = [[new_event(JOB, 1), new_event(f"run.a{rival}.r{rival}", 0)] for rival in range(2)]
    results = await asyncio.gather(*map(log.append_all, rivals), return_exceptions=True)
    assert sorted(type(result).__name__ for result in results) == ["Conflict", "int"]
    assert await log.last() == 3


@pytest.mark.feature("N16")
async def test_a_late_result_of_an_expired_lease_is_refused(log: EventLog) -> None:
    token = await log.append(new_event(RUN, 0))
    await log.append(new_event(RUN, token, reason="the lease expired"))
    with pytest.raises(Conflict):
        await log.append(new_event(RUN, token, reason="completed"))


async def test_a_history_of_nothing_is_empty(log: EventLog) -> None:
    assert await log.history("job.never") == []
    assert await log.last() == 0


async def test_a_long_history_comes_whole_and_in_order(log: EventLog) -> None:
    written: list[NewEvent] = [new_event(JOB, 0), *(new_event(JOB, None) for _ in range(599))]
    await log.append_all(written)
    assert ids(await log.history(JOB)) == ids(written)


async def test_the_newest_event_of_many_aggregates_comes_at_once(log: EventLog) -> None:
    aggregates = [f"job.j{number}" for number in range(300)]
    for aggregate in aggregates:
        await log.append(new_event(aggregate, 0))
    ending = new_event(aggregates[7], 8)
    await log.append(ending)
    newest = await log.newest([*aggregates, "job.never"])
    assert set(newest) == set(aggregates)
    assert (newest[aggregates[7]].seq, newest[aggregates[7]].envelope.id) == (
        301,
        ending.envelope.id,
    )
    assert newest[aggregates[299]].seq == 300
    assert await log.newest(["job.never"]) == await log.newest([]) == {}


async def test_a_feed_begins_after_its_place_and_goes_on_live(log: EventLog) -> None:
    last = await log.append_all([new_event(JOB, 0), *(new_event(JOB, None) for _ in range(9))])
    feed = log.follow(4)
    assert seqs(await take_events(feed, 3)) == [5, 6, 7]
    assert feed.behind == 3
    assert seqs(await take_events(feed, 3)) == [8, 9, 10]
    assert feed.behind == 0
    waiting = asyncio.create_task(feed.take())
    await log.append(new_event(JOB, last))
    assert seqs(await asyncio.wait_for(waiting, 30)) == [11]
    await feed.close()


async def test_a_cancelled_take_takes_nothing(log: EventLog) -> None:
    feed = log.follow(0)
    for _ in range(20):
        waiting = asyncio.create_task(feed.take())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait({waiting})
        assert waiting.cancelled()
    await log.append(new_event(JOB, 0))
    assert seqs(await asyncio.wait_for(feed.take(), 30)) == [1]
    await feed.close()


async def test_a_log_shorter_than_what_was_read_is_a_gap(log: EventLog) -> None:
    await log.append(new_event(JOB, 0))
    feed = log.follow(2)
    with pytest.raises(Gap, match="ends at 1"):
        await asyncio.wait_for(feed.take(), 30)
    await feed.close()
