"""A bit that flips in a file of the log while everything is stopped is noticed at the start."""

import asyncio
import re
from contextlib import suppress

import pytest

from shared.bus_keys.login import BusLogin
from shared.event_log import Gap
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.nats.streams import LogMonitor, ensure_streams, stream_state
from shared.servers.nats import NatsServer
from shared.subjects import STREAM
from tests.contracts.samples import new_event
from tests.support.damage import find_messages, find_record
from tests.support.waits import eventually

pytestmark = [
    pytest.mark.server,
]
EVENTS, DAMAGED = 12, 6


async def write_events(login: BusLogin) -> None:
    """Append a few events of one file."""
    nc = await connect(login, "test")
    await ensure_streams(nc)
    log = NatsLog(nc)
    for number in range(EVENTS):
        await log.append(new_event(f"job.j{number}", 0))
    await nc.close()


async def start_monitor(login: BusLogin) -> tuple[LogMonitor, dict[str, str], int]:
    """Watch until the log was checked; return the monitor, its reports and the messages counted."""
    parts: dict[str, str] = {}

    def report(part: str, reason: str | None) -> None:
        parts.update({part: reason}) if reason is not None else parts.pop(part, None)

    nc = await connect(login, "test")
    monitor = LogMonitor(nc, "test", report, 0.3)
    watching = asyncio.create_task(monitor.watch())
    try:
        await asyncio.sleep(0)
        assert parts == {"log": "the log has not been checked yet"}
        await eventually(lambda: parts.get("log") != "the log has not been checked yet", 30)
        messages = (await stream_state(nc, STREAM)).messages
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError, Gap):
            await watching
        await nc.close()
    return monitor, parts, messages


PARTS = ("sequence", "time", "subject", "headers", "body", "checksum")


@pytest.mark.parametrize("part", PARTS)
async def test_a_flipped_bit_of_an_event_is_damage_although_the_server_counts_the_event(
    own_nats: NatsServer, part: str
) -> None:
    await write_events(own_nats.login())
    own_nats.stop()
    find_record(own_nats.folder, DAMAGED).flip(part)
    own_nats.start()
    monitor, parts, messages = await start_monitor(own_nats.login())
    assert messages == EVENTS
    # With another sequence in this record, the next one is not found either.
    assert re.match(
        r"the log is damaged: \d+ events? cannot be read: 6( to \d+)?; see", parts["log"]
    )
    assert (monitor.missing_events == 1) == (part != "sequence")


async def test_a_flipped_bit_of_the_index_does_no_harm(own_nats: NatsServer) -> None:
    await write_events(own_nats.login())
    own_nats.stop()
    index = find_messages(own_nats.folder) / "index.db"
    data = bytearray(index.read_bytes())
    data[len(data) // 2] ^= 1
    index.write_bytes(data)
    own_nats.start()
    monitor, parts, messages = await start_monitor(own_nats.login())
    assert (messages, parts, monitor.problem) == (EVENTS, {}, "")
