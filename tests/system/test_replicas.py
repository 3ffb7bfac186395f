"""Three servers, everything three times: which of them answers makes no difference."""

import asyncio
import json
from functools import partial

import pytest
from nats.aio.client import Client

from shared.nats.connection import api_request
from shared.nats.event_log import NatsLog
from shared.nats.streams import ensure_streams, stream_info
from tests.contracts.samples import new_event
from tests.support.cluster import NatsCluster
from tests.support.log_lines import collect_warnings
from tests.support.waits import eventually
from tests.system.three import REPLICAS, client, leader

pytestmark = [pytest.mark.platform, pytest.mark.long, pytest.mark.server, pytest.mark.timeout(600)]

COPY_S_MAX = 60


async def test_what_one_wrote_is_read_whole_whichever_replica_answers(
    cluster: NatsCluster,
) -> None:
    async with client(cluster, "operator") as nc:
        await ensure_streams(nc, REPLICAS)
    # A client is answered by the server that it is at, and that is mostly not the leader.
    for place in range(2 * REPLICAS):
        async with client(cluster, "author") as nc:
            log = NatsLog(nc)
            for number in range(200):
                aggregate = f"job.own{place}x{number}"
                first = await log.append(new_event(aggregate, 0))
                assert [one.seq for one in await log.history(aggregate)] == [first]
                pair = [new_event(aggregate, first), new_event(aggregate, None)]
                last = await log.append_all(pair)
                assert [one.seq for one in await log.history(aggregate, first)] == [last - 1, last]


async def replica_counts(nc: Client) -> set[int]:
    names = json.loads(await api_request(nc, "STREAM.NAMES"))["streams"]
    return {(await stream_info(nc, name)).replicas for name in names}


async def test_a_log_with_one_replica_gets_three_while_it_is_written(
    cluster: NatsCluster,
) -> None:
    async with client(cluster, "ingest") as nc, client(cluster, "ranker") as other:
        with collect_warnings("shared.nats.streams") as warnings:
            await ensure_streams(nc)
        assert [warning for warning in warnings if "one server alone has the log" in warning]
        log, last, is_over = NatsLog(nc), 0, False

        async def write() -> None:
            nonlocal last
            while not is_over:
                last = await log.append(new_event("job.j1", last))

        writing = asyncio.create_task(write())
        await asyncio.gather(ensure_streams(other, REPLICAS), ensure_streams(nc, REPLICAS))
        assert await replica_counts(nc) == {REPLICAS}
        await eventually(partial(leader, nc), COPY_S_MAX)
        name = await leader(nc)
        assert name is not None
        is_over = True
        await writing
        # Whoever starts with another value takes no replica away.
        await ensure_streams(other)
        assert await replica_counts(nc) == {REPLICAS}
        cluster.server(name).kill()
        assert len(await log.history("job.j1")) == last
