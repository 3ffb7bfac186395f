"""Contract of following some aggregates, in memory and on JetStream."""

import asyncio

import pytest
from nats.aio.client import Client

from shared import subjects
from shared.event_log import BranchSource, Gap
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.nats.repair import append_raw
from shared.nats.streams import ensure_streams
from shared.servers.nats import NatsServer
from shared.wire import encode_envelope
from tests.contracts.conftest import World
from tests.contracts.samples import JOB, RUN, new_event, seqs, take_events
from tests.contracts.servers import restart
from tests.support.servers import SharedNats
from tests.support.waits import eventually

ADA, OTHER = subjects.account("ada"), subjects.account("other")


@pytest.fixture
def branches(world: World) -> BranchSource:
    assert isinstance(world.log, BranchSource)
    return world.log


async def test_a_branch_has_its_aggregates_alone(world: World, branches: BranchSource) -> None:
    for aggregate in (ADA, JOB, OTHER, RUN, ADA, JOB):
        await world.log.append(new_event(aggregate, None))
    branch = branches.branch(0, "account.>", RUN)
    assert seqs(await take_events(branch, 4)) == [1, 3, 4, 5]
    assert branch.behind == 0
    await world.log.append(new_event(JOB, None))
    await world.log.append(new_event(OTHER, None))
    assert seqs(await take_events(branch, 1)) == [8]
    await branch.close()


async def test_a_branch_begins_after_a_place(world: World, branches: BranchSource) -> None:
    for _ in range(3):
        await world.log.append(new_event(ADA, None))
    branch = branches.branch(2, "account.>")
    assert seqs(await take_events(branch, 1)) == [3]
    await branch.close()


async def test_who_has_not_all_is_behind(world: World, branches: BranchSource) -> None:
    await world.log.append(new_event(ADA, None))
    await world.log.append(new_event(JOB, None))
    branch = branches.branch(0, "account.>")
    assert branch.behind > 0
    await take_events(branch, 1)
    assert branch.behind == 0
    await branch.close()


async def test_an_empty_branch_is_soon_known_to_be_so(world: World, branches: BranchSource) -> None:
    await world.log.append(new_event(JOB, None))
    branch = branches.branch(0, "account.>")
    waiting = asyncio.create_task(branch.take())
    await eventually(lambda: branch.behind == 0)
    waiting.cancel()
    await branch.close()


async def test_a_long_past_of_several_aggregates_comes_in_the_order_of_the_log(
    world: World, branches: BranchSource
) -> None:
    aggregates = [
        JOB if number % 7 == 0 else RUN if number % 5 == 0 else ADA for number in range(300)
    ]
    for aggregate in aggregates:
        await world.log.append(new_event(aggregate, None))
    expected = [seq for seq, aggregate in enumerate(aggregates, 1) if aggregate != JOB and seq > 10]
    branch = branches.branch(10, "account.>", "invite.>", RUN)
    first = seqs(await take_events(branch, 7))
    assert branch.behind > 0
    assert first == expected[:7]
    # What comes while the past is read follows it.
    for aggregate in (RUN, JOB, ADA):
        await world.log.append(new_event(aggregate, None))
    remaining = seqs(await take_events(branch, len(expected) + 2 - len(first)))
    assert first + remaining == [*expected, 301, 303]
    assert branch.behind == 0
    await branch.close()


async def test_a_past_of_one_of_several_aggregates_is_whole(
    world: World, branches: BranchSource
) -> None:
    await world.log.append(new_event(ADA, None))
    branch = branches.branch(0, "account.>", "invite.>")
    assert seqs(await take_events(branch, 1)) == [1]
    waiting = asyncio.create_task(branch.take())
    await eventually(lambda: branch.behind == 0)
    await world.log.append(new_event(ADA, None))
    assert seqs(await asyncio.wait_for(waiting, 30)) == [2]
    await branch.close()


async def test_a_fingerprint_is_of_one_event_and_all_before_it(
    world: World, branches: BranchSource
) -> None:
    assert await branches.fingerprint(1) is None
    await world.log.append(new_event(ADA, None))
    await world.log.append(new_event(ADA, None))
    first, second = await branches.fingerprint(1), await branches.fingerprint(2)
    assert first is not None
    assert first != second
    assert await branches.fingerprint(1) == first
    assert await branches.fingerprint(3) is None


@pytest.mark.server
async def test_a_copy_of_a_log_has_another_fingerprint(
    client: Client, shared_nats: SharedNats
) -> None:
    log = NatsLog(client)
    event = new_event(ADA, None)
    await log.append(event)
    other = await connect(shared_nats.fresh_url(), "test")
    await ensure_streams(other)
    body = (subjects.subject(ADA), event.envelope.id, encode_envelope(event.envelope))
    await append_raw(other, [body], 0)
    assert await NatsLog(other).last() == 1
    assert await NatsLog(other).fingerprint(1) != await log.fingerprint(1)
    await other.close()


@pytest.mark.long
@pytest.mark.server
async def test_a_branch_goes_on_after_an_outage(client: Client, own_nats: NatsServer) -> None:
    log = NatsLog(client)
    branch = log.branch(0, "account.>")
    await log.append(new_event(ADA, None))
    assert seqs(await take_events(branch, 1)) == [1]
    restart(own_nats)
    await log.append(new_event(JOB, None))
    await log.append(new_event(ADA, None))
    assert seqs(await take_events(branch, 1)) == [3]
    await branch.close()


@pytest.mark.server
async def test_a_log_shorter_than_what_was_read_is_a_gap(client: Client) -> None:
    branch = NatsLog(client).branch(7, "account.>")
    with pytest.raises(Gap, match="ends at 0"):
        await asyncio.wait_for(branch.take(), 30)
    await branch.close()
    branch = NatsLog(client).branch(7, "account.>", "invite.>")
    with pytest.raises(Gap, match="ends at 0"):
        await asyncio.wait_for(branch.take(), 30)
    await branch.close()
