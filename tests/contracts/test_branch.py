"""What following some aggregates promises, asked of memory and of JetStream alike."""

import asyncio

import pytest
from nats.aio.client import Client

from shared import subjects
from shared.event_log import Branches, Gap
from shared.nats.event_log import NatsLog
from shared.servers.nats import NatsServer
from shared.testing import eventually
from tests.contracts.conftest import World
from tests.contracts.samples import JOB, RUN, new, seqs, taken
from tests.contracts.servers import restart

ADA, OTHER = subjects.account("ada"), subjects.account("other")


@pytest.fixture
def branches(world: World) -> Branches:
    assert isinstance(world.log, Branches)
    return world.log


async def test_a_branch_has_its_aggregates_alone(world: World, branches: Branches) -> None:
    for agg in (ADA, JOB, OTHER, RUN, ADA, JOB):
        await world.log.append(new(agg, None))
    branch = branches.branch(0, "account.>", RUN)
    assert seqs(await taken(branch, 4)) == [1, 3, 4, 5]
    assert branch.behind == 0
    await world.log.append(new(JOB, None))
    await world.log.append(new(OTHER, None))
    assert seqs(await taken(branch, 1)) == [8]
    await branch.close()


async def test_a_branch_begins_after_a_place(world: World, branches: Branches) -> None:
    for _ in range(3):
        await world.log.append(new(ADA, None))
    branch = branches.branch(2, "account.>")
    assert seqs(await taken(branch, 1)) == [3]
    await branch.close()


async def test_who_has_not_all_is_behind(world: World, branches: Branches) -> None:
    await world.log.append(new(ADA, None))
    await world.log.append(new(JOB, None))
    branch = branches.branch(0, "account.>")
    assert branch.behind > 0
    await taken(branch, 1)
    assert branch.behind == 0
    await branch.close()


async def test_an_empty_branch_is_soon_known_to_be_so(world: World, branches: Branches) -> None:
    await world.log.append(new(JOB, None))
    branch = branches.branch(0, "account.>")
    waiting = asyncio.create_task(branch.take())
    await eventually(lambda: branch.behind == 0)
    waiting.cancel()
    await branch.close()


@pytest.mark.long
@pytest.mark.server
async def test_a_branch_goes_on_after_an_outage(client: Client, own_nats: NatsServer) -> None:
    log = NatsLog(client)
    branch = log.branch(0, "account.>")
    await log.append(new(ADA, None))
    assert seqs(await taken(branch, 1)) == [1]
    restart(own_nats)
    await log.append(new(JOB, None))
    await log.append(new(ADA, None))
    assert seqs(await taken(branch, 1)) == [3]
    await branch.close()


@pytest.mark.server
async def test_a_log_shorter_than_what_was_read_is_a_gap(client: Client) -> None:
    branch = NatsLog(client).branch(7, "account.>")
    with pytest.raises(Gap, match="ends at 0"):
        await asyncio.wait_for(branch.take(), 30)
    await branch.close()
