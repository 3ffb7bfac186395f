"""A projection folded anew beside the live one: compared, switched, and nothing left behind."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from ranker.__main__ import SCHEMA as LIVE
from ranker.archive.keeping import keep
from ranker.archive.postgres import PACKAGE, Archive, archive
from ranker.audit.auditing import Question, audit
from ranker.audit.copies import ArchiveCopy
from ranker.commands.replaying import Unwatched
from ranker.domain.kept import kept
from ranker.domain.report import Report
from ranker.export.file import Reader, Writer
from ranker.postgres import PROJECTION, ReadModels
from ranker.replay.postgres import Schemas, schemas
from ranker.replay.replaying import Filling, replay
from ranker.replay.sources import ArchiveLog, FileLog
from ranker.service import News, project
from shared.errors import Refused
from shared.event_log import EventLog, Gap
from shared.memory import MemoryLog
from shared.postgres import connect, drop_schema, migrate, pool
from shared.signing import verify
from shared.testing import eventually
from tests.ranker.audited import Town
from tests.ranker.replayed import filling, fold, replayed
from tests.support.lives import Life, NoMetrics

pytestmark = pytest.mark.server


@pytest.fixture
async def town(tmp_path: Path) -> Town:
    town = await Town(tmp_path).found()
    await town.live(Life("s1"), Life("s2", account="grace", time_us=50.0))
    return town


async def copy(source: EventLog, dsn: str, schema: str, until: int) -> None:
    async with archive(dsn, schema) as fresh:
        await keep(source, fresh, Unwatched(), until=until)


@pytest.fixture
async def dsn(postgres_dsn: str, town: Town) -> str:
    """A database whose live read models have come to the end of the log."""
    await fold(town.log, postgres_dsn, LIVE, await town.log.last())
    return postgres_dsn


async def spoil(dsn: str) -> None:
    async with await connect(dsn, LIVE) as connection:
        await connection.execute(b"update entry set score_us = 1 where account = 'ada'")


async def left(dsn: str) -> list[str]:
    """The schemas of our projection that are there."""
    find = b"select nspname from pg_namespace where nspname like 'rm_%' order by 1"
    async with await connect(dsn) as connection:
        return [name for (name,) in await (await connection.execute(find)).fetchall()]


async def test_an_untouched_projection_is_equal_row_by_row(dsn: str, town: Town) -> None:
    found = await replayed(dsn, town.log, LIVE)
    assert (found.differences, found.seq) == ([], await town.log.last())
    assert (found.rows["entry"], found.rows["submission"]) == (2, 2)
    assert await left(dsn) == [LIVE]


async def test_a_changed_row_is_found_on_both_sides(dsn: str, town: Town) -> None:
    await spoil(dsn)
    found = await replayed(dsn, town.log, LIVE)
    assert [one["kind"] for one in found.differences] == ["entry", "entry"]
    assert found.differences[0]["live"] is not None
    assert found.differences[1]["rebuilt"] is not None


async def test_a_switch_shows_the_fresh_rows_to_readers_at_once(dsn: str, town: Town) -> None:
    await spoil(dsn)
    scores = b"select score_us from entry order by score_us"
    async with pool(dsn, 1, 1, LIVE) as connections, connections.connection() as reading:
        for _ in range(10):  # So often that the statement is prepared.
            await reading.execute(scores)
        before = await (await reading.execute(scores)).fetchall()
        found = await replayed(dsn, town.log, LIVE, switch=True)
        after = await (await reading.execute(scores)).fetchall()
    assert (before, after) == ([(1.0,), (50.0,)], [(50.0,), (100.0,)])
    assert (found.is_switched, len(found.differences)) == (True, 2)
    assert await left(dsn) == [LIVE, f"{LIVE}_old"]


@asynccontextmanager
async def projecting(log: MemoryLog, dsn: str) -> AsyncIterator[ReadModels]:
    """The service's own projector, running."""

    async def run() -> None:
        async with await connect(dsn, LIVE) as connection:
            async for _ in project(log, ReadModels(connection), News(), NoMetrics()):
                pass

    running = asyncio.create_task(run())
    try:
        async with await connect(dsn, LIVE) as connection:
            yield ReadModels(connection)
        assert not running.done(), running.exception()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_the_running_projector_goes_on_in_the_fresh_tables(dsn: str, town: Town) -> None:
    async with projecting(town.log, dsn) as models:
        for number in range(3, 6):
            found = await replayed(dsn, town.log, LIVE, switch=True)
            assert found.differences == []
            await town.live(Life(f"s{number}", account=f"a{number}", time_us=10.0 * number))
            await eventually(partial(is_at, models, await town.log.last()))
    assert (await replayed(dsn, town.log, LIVE)).differences == []


async def is_at(models: ReadModels, seq: int) -> bool:
    return await models.checkpoint() == seq


async def test_events_that_come_during_a_switch_are_folded_once(dsn: str, town: Town) -> None:
    async def submit() -> None:
        for number in range(10, 30):
            await town.live(Life(f"s{number}", account=f"a{number}", time_us=float(number)))
            await asyncio.sleep(0.01)

    async with projecting(town.log, dsn) as models:
        submitting = asyncio.create_task(submit())
        for _ in range(3):
            assert (await replayed(dsn, town.log, LIVE, switch=True)).differences == []
        await submitting
        await eventually(partial(is_at, models, await town.log.last()))
    assert (await replayed(dsn, town.log, LIVE)).differences == []


async def test_a_replay_that_is_over_holds_no_other_up(dsn: str, town: Town) -> None:
    async with schemas(dsn, LIVE, PROJECTION) as both:
        await replay(both, filling(dsn, town.log), switch=False)
        assert (await replayed(dsn, town.log, LIVE)).differences == []


async def broken(dsn: str, both: Schemas, source: EventLog) -> None:
    async def fill(schema: str, until: int) -> None:
        await fold(source, dsn, schema, until // 2)
        raise Gap("the log broke off")

    made = Filling(lambda fresh: migrate(dsn, "ranker", fresh), fill, source.last)
    with pytest.raises(Gap):
        await replay(both, made, switch=True)


async def test_a_replay_that_breaks_off_leaves_the_live_tables_alone(dsn: str, town: Town) -> None:
    async with schemas(dsn, LIVE, PROJECTION) as both:
        await broken(dsn, both, town.log)
    assert await left(dsn) == [LIVE]
    assert (await replayed(dsn, town.log, LIVE)).differences == []


async def test_what_a_killed_replay_left_is_dropped_by_the_next(dsn: str, town: Town) -> None:
    migrate(dsn, "ranker", f"{LIVE}_fresh")
    await fold(town.log, dsn, f"{LIVE}_fresh", 5)
    assert (await replayed(dsn, town.log, LIVE)).differences == []
    assert await left(dsn) == [LIVE]


async def test_two_replays_of_one_projection_do_not_meet(dsn: str, town: Town) -> None:
    async with schemas(dsn, LIVE, PROJECTION) as one:
        await one.take_turn()
        with pytest.raises(Refused, match="another replay of ranker runs"):
            await replayed(dsn, town.log, LIVE)
    assert (await replayed(dsn, town.log, LIVE)).differences == []


async def test_a_new_version_of_the_tables_is_filled_before_its_service(
    postgres_dsn: str, town: Town
) -> None:
    drop_schema(postgres_dsn, LIVE)
    found = await replayed(postgres_dsn, town.log, LIVE, switch=True)
    assert (found.is_compared, found.is_switched) == (False, True)
    assert migrate(postgres_dsn, "ranker", LIVE) == 0
    assert (await replayed(postgres_dsn, town.log, LIVE)).is_compared


async def test_the_archive_and_a_file_are_sources_too(dsn: str, town: Town, tmp_path: Path) -> None:
    last = await town.log.last()
    await copy(town.log, dsn, "archive", last)
    async with archive(dsn) as found:
        assert (await replayed(dsn, ArchiveLog(found), LIVE)).differences == []
        spoil_it = b"update event_archive set body = body || ' '::bytea where seq = 4"
        await found.connection.execute(spoil_it)
        with pytest.raises(Gap, match="chain breaks at event 4"):
            await replayed(dsn, ArchiveLog(found), LIVE)
    writer = Writer(tmp_path / "log.gz", last, None)
    for event in town.log.since(0):
        writer.write(kept(event))
    writer.close()
    reader = Reader(tmp_path / "log.gz")
    assert (await replayed(dsn, FileLog(reader.events, last), LIVE)).differences == []


async def test_a_source_that_is_too_short_is_refused(dsn: str) -> None:
    with pytest.raises(Refused, match="the source ends at 3"):
        await replayed(dsn, FileLog(lambda: iter([]), 3), LIVE)


async def test_a_spoilt_archive_is_mended_from_the_log(dsn: str, town: Town) -> None:
    migrate(dsn, PACKAGE, LIVE + "_archive")
    schema, log = LIVE + "_archive", town.log
    await copy(log, dsn, schema, await log.last())

    async def fill(fresh: str, until: int) -> None:
        await copy(log, dsn, fresh, until)

    made = Filling(lambda fresh: migrate(dsn, PACKAGE, fresh), fill, log.last)
    async with archive(dsn, schema) as archiving:
        spoil_it = b"update event_archive set body = 'x'::bytea, h = 'y'::bytea where seq = 4"
        await archiving.connection.execute(spoil_it)
        assert (await audited(archiving, log)).findings[0].seq == 4
        async with schemas(dsn, schema, "archive") as both:
            found = await replay(both, made, switch=True)
        assert [one["kind"] for one in found.differences] == ["event_archive"] * 2
        await town.live(Life("s9", account="eve"))
        await keep(log, archiving, Unwatched(), until=await log.last())
        assert (await audited(archiving, log)).is_clean


async def audited(archiving: Archive, log: MemoryLog) -> Report:
    return await audit(Question("identity", "CPU"), ArchiveCopy(archiving, log), verify)
