"""The streams have the settings in the specification, on a real server."""

import asyncio
import json
from typing import Any

import pytest
from nats.aio.client import Client

from shared.errors import Failed
from shared.nats.blobs import NatsBlobStore
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.nats.streams import ensure_streams
from tests.contracts.samples import new_event
from tests.support.log_lines import collect_warnings

pytestmark = pytest.mark.server


async def api(nc: Client, what: str, body: object = None) -> dict[str, Any]:
    data = b"" if body is None else json.dumps(body).encode()
    answer: dict[str, Any] = json.loads((await nc.request(f"$JS.API.{what}", data, 2)).data)
    return answer


async def test_several_services_may_ensure_the_streams_at_once(nats_url: str) -> None:
    clients = [await connect(nats_url, f"s{number}") for number in range(4)]
    await asyncio.gather(*map(ensure_streams, clients), ensure_streams(clients[0]))
    names = (await api(clients[0], "STREAM.NAMES"))["streams"]
    assert sorted(names) == [
        "BLOBS",
        "DEADLETTERS",
        "EVENTS",
        "KV_LEASES",
        "OBJ_LARGE",
        "SNAPSHOTS",
        "UPLOADS",
        "WATERMARKS",
    ]
    for nc in clients:
        await nc.close()


async def test_single_events_cannot_be_deleted(client: Client) -> None:
    await client.request("events.job.j1", b"{}", 2)
    assert "error" in await api(client, "STREAM.MSG.DELETE.EVENTS", {"seq": 1})


async def test_the_log_has_the_settings_of_the_specification(client: Client) -> None:
    config = (await api(client, "STREAM.INFO.EVENTS"))["config"]
    expected = {
        "storage": "file",
        "discard": "new",
        "max_msg_size": 262144,
        "deny_delete": True,
        "deny_purge": False,
        "allow_direct": True,
        "allow_atomic": True,
        "max_msgs": -1,
        "max_bytes": -1,
        "max_age": 0,
        "duplicate_window": 600 * 10**9,
    }
    assert {key: config.get(key) for key in expected} == expected


async def test_a_stream_that_is_not_ours_is_refused_with_a_sentence(nats_url: str) -> None:
    nc = await connect(nats_url, "test")
    await api(nc, "STREAM.CREATE.EVENTS", {"name": "EVENTS", "subjects": ["other.>"]})
    with pytest.raises(Failed, match=r"stream EVENTS has subjects=\['other.>'\].*: it is not ours"):
        await ensure_streams(nc)
    await nc.close()


async def test_a_setting_that_another_version_had_is_changed_and_nothing_is_lost(
    nats_url: str,
) -> None:
    nc = await connect(nats_url, "test")
    old = {"name": "EVENTS", "subjects": ["events.>"], "storage": "file", "max_msg_size": 1024}
    await api(nc, "STREAM.CREATE.EVENTS", old)
    await NatsLog(nc).append(new_event("job.j1", None))
    with collect_warnings("shared.nats.streams") as warnings:
        await ensure_streams(nc)
    (changed,) = [line for line in warnings if "changed stream EVENTS" in line]
    assert "max_msg_size from 1024" in changed
    assert await NatsLog(nc).last() == 1
    with collect_warnings("shared.nats.streams") as warnings:
        await ensure_streams(nc)
    assert [line for line in warnings if "changed stream" in line] == []
    await nc.close()


async def test_a_setting_that_the_server_cannot_change_says_what_to_do(nats_url: str) -> None:
    nc = await connect(nats_url, "test")
    old = {"name": "EVENTS", "subjects": ["events.>"], "storage": "memory"}
    await api(nc, "STREAM.CREATE.EVENTS", old)
    expected = r"storage from 'memory' to 'file'.*restore it: docs/operating/backup-and-restore"
    with pytest.raises(Failed, match=expected):
        await ensure_streams(nc)
    await nc.close()


async def test_the_tools_of_nats_read_a_large_blob(client: Client) -> None:
    data = b"0123456789abcdef" * 20_000
    blob = await NatsBlobStore(client).put(data)
    store = await client.jetstream().object_store("LARGE")
    assert (await store.get(blob.digest)).data == data


async def test_replicas_without_a_cluster_are_refused_at_once(nats_url: str) -> None:
    nc = await connect(nats_url, "test")
    expected = "REPLICAS is 3, but the NATS server is not in a cluster: set REPLICAS=1"
    with pytest.raises(Failed, match=expected):
        await asyncio.wait_for(ensure_streams(nc, 3), 30)
    await ensure_streams(nc)
    with pytest.raises(Failed, match=expected):
        await asyncio.wait_for(ensure_streams(nc, 3), 30)
    await nc.close()


async def test_an_even_number_of_replicas_is_refused(client: Client) -> None:
    with pytest.raises(Failed, match="REPLICAS is 2: expected 1, 3, 5"):
        await ensure_streams(client, 2)
