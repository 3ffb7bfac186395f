"""Three servers, everything three times: which of them answers makes no difference."""

import pytest

from shared.nats.event_log import NatsLog
from shared.nats.streams import ensure_streams
from tests.contracts.samples import new_event
from tests.support.cluster import NatsCluster
from tests.system.three import REPLICAS, client

pytestmark = [pytest.mark.platform, pytest.mark.long, pytest.mark.server, pytest.mark.timeout(600)]


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
