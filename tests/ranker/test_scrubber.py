"""The background scrub finds what a server does not count, in the log and in the archive."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from ranker.archive.postgres import open_archive
from ranker.archive.scrubber import Scrubber
from shared.event_log import Gap
from shared.health import ScrubState
from shared.nats.connection import connect
from shared.nats.repair import LogRepair
from shared.nats.scrub import read_scrub_state
from shared.nats.streams import LogMonitor
from shared.servers.nats import NatsServer
from tests.ranker.archived_log import ArchivedLog, start_archived_log
from tests.support.damage import fill_log, find_record
from tests.support.waits import eventually

pytestmark = [
    pytest.mark.long,
    pytest.mark.server,
]
DAMAGED = 6
WAIT_S = 30


@pytest.fixture
async def platform(own_nats: NatsServer, postgres_dsn: str, tmp_path: Path) -> ArchivedLog:
    return await start_archived_log(own_nats, postgres_dsn, tmp_path)


def ignore(_part: str, _reason: str | None) -> None:
    """Drop what a part reports of its health."""


@asynccontextmanager
async def scrubbing(platform: ArchivedLog, pass_s: float = 3600) -> AsyncIterator[Scrubber]:
    """Scrub in the background."""
    nc = await connect(platform.server.login(), "test")
    scrubber = Scrubber(LogRepair(nc), platform.settings.postgres_dsn, pass_s, ignore)
    task = asyncio.create_task(scrubber.run())
    try:
        yield scrubber
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await nc.close()


async def stored(platform: ArchivedLog, is_reached: Callable[[ScrubState], bool]) -> ScrubState:
    """Wait until the stored state of the scrub is as expected, and return it."""
    nc = await platform.connect()

    async def look() -> ScrubState | None:
        state = await read_scrub_state(nc)
        return state if is_reached(state) else None

    state = await eventually(look, WAIT_S)
    await nc.close()
    assert state is not None
    return state


async def damage_of(platform: ArchivedLog) -> str:
    """What a service that starts now says about the log."""
    nc = await platform.connect()
    monitor = LogMonitor(nc, "test", ignore)
    await monitor.check()
    await nc.close()
    return monitor.damage


def damage_at_rest(platform: ArchivedLog, part: str = "body", seq: int = DAMAGED) -> None:
    """Stop the server, flip a bit of an event, and start it."""
    platform.server.stop()
    find_record(platform.server.folder, seq).flip(part)
    platform.server.start()


async def test_a_pass_over_a_whole_log_finds_nothing(platform: ArchivedLog) -> None:
    async with scrubbing(platform) as scrubber:
        state = await stored(platform, lambda state: state.ended_at is not None)
        assert scrubber.newest_compared.is_set()
    assert state.seq == state.ended_seq == len(await platform.events())
    assert (state.damaged, state.damaged_events, state.archive_damaged) == ([], 0, [])


@pytest.mark.parametrize("part", ["length", "headers", "body"])
async def test_damage_at_rest_reaches_every_service_and_a_repair_ends_it(
    platform: ArchivedLog, part: str
) -> None:
    before = await platform.events()
    damage_at_rest(platform, part)
    async with scrubbing(platform) as scrubber:
        state = await stored(platform, lambda state: state.damaged_events > 0)
        assert not scrubber.newest_compared.is_set()
    assert state.damaged[0][0] == DAMAGED
    assert state.archive_damaged == []
    assert "the log is damaged" in await damage_of(platform)
    code, repaired = await platform.run("repair", str(platform.file))
    assert (code, repaired["is_repaired"]) == (0, True), repaired
    assert (await platform.events())[:-1] == before
    assert await damage_of(platform) == ""


async def test_damage_in_an_old_file_is_found_by_a_pass_of_bounded_speed(
    platform: ArchivedLog,
) -> None:
    # More than the newest 16 MiB, so that event 6 is read by the slow pass alone.
    await fill_log(platform.server.login())
    await platform.archive_alone()
    damage_at_rest(platform)
    async with scrubbing(platform) as scrubber:
        nc = await platform.connect()
        monitor = LogMonitor(nc, "test", ignore)
        await monitor.check()
        assert monitor.damage == ""
        state = await stored(platform, lambda state: state.damaged_events > 0)
        assert state.damaged == [(DAMAGED, DAMAGED)]
        await monitor.check()
        assert "1 event missing or not as archived: 6; see" in monitor.damage
        assert monitor.missing_events == 1
        # The file is put back, as from a copy of the disk: the scrub looks again by itself.
        platform.server.stop()
        find_record(platform.server.folder, DAMAGED).flip("body")
        platform.server.start()
        await stored(platform, lambda state: state.damaged_events == 0)
        # Whoever folded a damaged log has to fold all of it again.
        with pytest.raises(Gap):
            await monitor.check()
        await nc.close()
        assert scrubber.state.archive_damaged == []


async def test_a_damaged_archive_is_told_apart_from_a_damaged_log(platform: ArchivedLog) -> None:
    async with open_archive(platform.settings.postgres_dsn) as archive:
        await archive.connection.execute(
            b"update event_archive set body = set_byte(body, 9, get_byte(body, 9) # 1)"
            b" where seq = 6"
        )
    async with scrubbing(platform) as scrubber:
        state = await stored(platform, lambda state: state.archive_damaged != [])
        await eventually(scrubber.newest_compared.is_set, WAIT_S)
    assert (state.archive_damaged, state.damaged) == ([(DAMAGED, DAMAGED)], [])
    # The log is served: it is whole.
    assert await damage_of(platform) == ""
    scrubbed = await platform.scrub()
    assert (scrubbed.is_clean, scrubbed.is_log_whole, scrubbed.differing.count) == (False, True, 0)
    code, refused = await platform.run("repair", str(platform.file))
    assert (code, "the log is whole and needs no repair" in refused) == (2, True), refused
    assert not platform.file.exists()
    code, replayed = await platform.run("replay", "--projection", "archive", "--switch")
    assert (code, replayed["is_equal"]) == (1, False), replayed
    async with scrubbing(platform):
        await stored(platform, lambda state: state.archive_damaged == [])
    assert (await platform.scrub()).is_clean


async def test_the_command_tells_the_services_what_it_found(platform: ArchivedLog) -> None:
    damage_at_rest(platform)
    code, scrubbed = await platform.run("scrub")
    assert (code, scrubbed["missing"]["ranges"]) == (1, [[DAMAGED, DAMAGED]])
    state = await stored(platform, lambda state: state.ended_at is not None)
    assert (state.damaged_events, state.damaged) == (1, [(DAMAGED, DAMAGED)])


async def test_of_two_rankers_one_scrubs_until_it_ends(platform: ArchivedLog) -> None:
    async with scrubbing(platform, pass_s=0) as first:
        await eventually(lambda: first.state.ended_at is not None, WAIT_S)
        async with scrubbing(platform, pass_s=0) as second:
            await eventually(second.newest_compared.is_set, WAIT_S)
            ended_at = first.state.ended_at
            await eventually(lambda: first.state.ended_at != ended_at, WAIT_S)
            # It learns from the first one.
            await eventually(lambda: second.state.ended_at is not None, WAIT_S)
            begun_at = second.state.began_at
    async with scrubbing(platform) as second:
        await eventually(lambda: second.state.began_at != begun_at, WAIT_S)
