"""A log that lost events is not served, and a NATS that stores nothing is reported."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
from nats.aio.client import Client

from shared.bus_keys.login import BusLogin
from shared.errors import Failed
from shared.event_log import Gap
from shared.health import LOG_PART, LOG_STORE_PART, StreamState
from shared.nats.connection import api_request, connect, publish
from shared.nats.event_log import NatsLog
from shared.nats.streams import LogMonitor, ensure_streams, read_known_seq, stream_state
from shared.servers.nats import NatsServer
from shared.subjects import STREAM, WATERMARKS
from tests.contracts.samples import JOB, new_event
from tests.contracts.servers import restart
from tests.support.damage import (
    FILLERS,
    break_middle,
    fill_disk,
    fill_log,
    find_blocks,
    find_messages,
    flip_bit,
    small_disk,
)
from tests.support.waits import eventually

pytestmark = [
    pytest.mark.long,
    pytest.mark.server,
]
CHECK_S = 0.3


class Watched:
    """A running monitor, its log, and its reports."""

    def __init__(self, nc: Client) -> None:
        self.parts: dict[str, str] = {}
        self.monitor = LogMonitor(nc, "test", self.report, CHECK_S)
        self.log = NatsLog(nc, self.monitor)
        self.watching = asyncio.create_task(self.monitor.watch())

    def report(self, part: str, reason: str | None) -> None:
        """Record a report."""
        if reason is None:
            self.parts.pop(part, None)
        else:
            self.parts[part] = reason


@asynccontextmanager
async def watching(login: BusLogin) -> AsyncIterator[Watched]:
    nc = await connect(login, "test")
    await ensure_streams(nc)
    watched = Watched(nc)
    try:
        yield watched
    finally:
        watched.watching.cancel()
        with suppress(asyncio.CancelledError, Gap):
            await watched.watching
        await nc.close()


async def test_a_whole_log_is_well(own_nats: NatsServer) -> None:
    async with watching(own_nats.login()) as watched:
        await watched.log.append(new_event(JOB, 0))
        await watched.monitor.until_whole()
        assert (watched.monitor.problem, watched.parts) == ("", {})


@pytest.mark.feature("A9")
async def test_a_log_with_a_hole_is_ill_and_takes_nothing(own_nats: NatsServer) -> None:
    await fill_log(own_nats.login())
    async with watching(own_nats.login()) as watched:
        await watched.monitor.until_whole()
        assert watched.parts == {}
        break_middle(own_nats)
        await eventually(lambda: LOG_PART in watched.parts, 30)
        assert f"of its {FILLERS} events are missing" in watched.parts[LOG_PART]
        assert watched.monitor.missing_events > 0
        with pytest.raises(Failed, match="the log is damaged"):
            await watched.log.append(new_event(JOB, 0))
        with pytest.raises(Failed, match="the log is damaged"):
            await watched.log.history(JOB)


async def test_a_service_that_starts_on_a_damaged_log_waits(own_nats: NatsServer) -> None:
    await fill_log(own_nats.login())
    break_middle(own_nats)
    async with watching(own_nats.login()) as watched:
        await eventually(lambda: "is damaged" in watched.parts.get(LOG_PART, ""), 30)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3 * CHECK_S):
                await watched.monitor.until_whole()


async def test_a_log_that_lost_its_end_is_ill_after_a_restart_of_everything(
    own_nats: NatsServer,
) -> None:
    async with watching(own_nats.login()) as watched:
        last = 0
        for number in range(20):
            last = await watched.log.append(new_event(f"job.j{number}", 0))
        nc = await connect(own_nats.login(), "other")
        await eventually(partial(_is_known, nc, last), 10)
        await nc.close()
    own_nats.kill()
    (block,) = find_blocks(own_nats.folder)
    flip_bit(block, 0.7)
    own_nats.start()
    async with watching(own_nats.login()) as watched:
        await eventually(lambda: "is damaged" in watched.parts.get(LOG_PART, ""), 30)
        assert "of its 20 events are missing" in watched.parts[LOG_PART]


async def test_whoever_served_a_damaged_log_starts_over_once_it_is_whole(
    own_nats: NatsServer,
) -> None:
    async with watching(own_nats.login()) as watched:
        await watched.monitor.until_whole()
        nc = await connect(own_nats.login(), "other")
        await _empty(nc)
        watched.monitor.known_seq = 2
        await eventually(lambda: LOG_PART in watched.parts, 30)
        other = NatsLog(nc)
        await other.append(new_event(JOB, 0))
        await other.append(new_event("job.j2", 0))
        with pytest.raises(Gap, match="complete again"):
            async with asyncio.timeout(30):
                await watched.watching
        await nc.close()


async def _empty(nc: Client) -> None:
    """Replace the log by an empty one."""
    await api_request(nc, f"STREAM.DELETE.{STREAM}")
    await ensure_streams(nc)


async def test_an_append_waits_while_nobody_has_checked_the_log(own_nats: NatsServer) -> None:
    async with watching(own_nats.login()) as watched:
        await watched.monitor.until_whole()
        restart(own_nats)
        assert await watched.log.append(new_event(JOB, 0)) == 1
        assert watched.monitor.is_checked


async def test_a_full_disk_is_told_until_the_server_is_restarted(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 64) as disk:
        server = NatsServer(disk / "nats")
        server.start()
        try:
            async with watching(server.login()) as watched:
                await watched.log.append(new_event(JOB, 0))
                ballast = fill_disk(disk)
                appends = asyncio.create_task(_append_until_failure(watched.log))
                await eventually(lambda: LOG_STORE_PART in watched.parts, 30)
                assert "NATS stores nothing" in watched.parts[LOG_STORE_PART]
                ballast.unlink()
                # The server does not notice that there is room.
                nc = await connect(server.login(), "other")
                with pytest.raises(TimeoutError):
                    await publish(nc, "events.job.after", b"{}", {})
                await nc.close()
                assert LOG_STORE_PART in watched.parts
                appends.cancel()
                restart(server)
                await eventually(lambda: watched.parts == {}, 30)
                await watched.log.append(new_event("job.after", 0))
        finally:
            server.stop()


async def test_a_log_whose_own_files_fail_is_told_although_others_are_written(
    own_nats: NatsServer,
) -> None:
    async with watching(own_nats.login()) as watched:
        await watched.monitor.until_whole()
    own_nats.stop()
    with small_disk(find_messages(own_nats.folder), 16) as disk:
        own_nats.start()
        try:
            async with watching(own_nats.login()) as watched:
                await watched.log.append(new_event("job.before", 0))
                ballast = fill_disk(disk)
                await _fail_to_append(watched)
                nc = await connect(own_nats.login(), "other")
                assert (await publish(nc, "watermarks.other", b"{}", {})).seq > 0
                await nc.close()
                assert "an append was not answered" in watched.parts[LOG_STORE_PART]
                ballast.unlink()
                restart(own_nats)
                await eventually(lambda: watched.parts == {}, 30)
                await watched.log.append(new_event("job.after", 0))
        finally:
            own_nats.stop()


@pytest.mark.parametrize("is_killed", [True, False])
async def test_an_event_that_was_never_written_is_no_hole_until_an_orderly_stop(
    own_nats: NatsServer, *, is_killed: bool
) -> None:
    """A server counts an event that it failed to write as the first of a new file."""
    async with watching(own_nats.login()) as watched:
        await watched.monitor.until_whole()
    own_nats.stop()
    with small_disk(find_messages(own_nats.folder), 16) as disk:
        own_nats.start()
        try:
            async with watching(own_nats.login()) as watched:
                count = 83
                for number in range(count):
                    await watched.log.append(
                        new_event(f"job.filler{number}", 0, reason="x" * 100_000)
                    )
                ballast = fill_disk(disk)
                await _fail_to_append(watched)
                nc = await connect(own_nats.login(), "other")
                stream = await stream_state(nc, STREAM)
                await nc.close()
                assert (stream.messages, stream.last_seq) == (count, count + 1)
                assert set(watched.parts) == {LOG_STORE_PART}
                ballast.unlink()
                own_nats.kill() if is_killed else own_nats.stop()
                own_nats.start()
                if is_killed:
                    await eventually(lambda: watched.parts == {}, 30)
                    assert await watched.log.append(new_event("job.after", 0)) == count + 1
                else:
                    await eventually(lambda: LOG_PART in watched.parts, 30)
                    assert "1 of its 84 events are missing" in watched.parts[LOG_PART]
        finally:
            own_nats.stop()


async def _is_known(nc: Client, seq: int) -> bool:
    """Return whether a watermark has this sequence."""
    return await read_known_seq(nc) == seq


async def _fail_to_append(watched: Watched) -> None:
    """Try to append a large event until the monitor knows that nothing is stored."""
    event = new_event("job.failing", 0, reason="x" * 100_000)
    appending = asyncio.create_task(watched.log.append(event))
    await eventually(lambda: LOG_STORE_PART in watched.parts, 30)
    assert not appending.done()
    appending.cancel()
    await asyncio.gather(appending, return_exceptions=True)


async def _append_until_failure(log: NatsLog) -> None:
    number = 0
    with suppress(Failed):
        while True:
            number += 1
            await log.append(new_event(f"job.full{number}", 0, reason="x" * 50_000))


async def test_a_probe_leaves_one_message_a_service(own_nats: NatsServer) -> None:
    async with watching(own_nats.login()) as watched:
        await watched.monitor.until_whole()
        nc = await connect(own_nats.login(), "other")

        async def watermarks() -> StreamState | None:
            stream = await stream_state(nc, WATERMARKS)
            return stream if stream.last_seq > 2 else None

        found = await eventually(watermarks, 10)
        assert found is not None
        assert found.messages == 1
        await nc.close()
