"""A replay folds a projection beside the live one, compares, switches, and cleans up."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from ranker.archive.archiver import run_archiver
from ranker.archive.log_file import LogFileReader, LogFileWriter
from ranker.archive.postgres import PACKAGE, Archive, open_archive
from ranker.audit.command import ArchiveCopy
from ranker.audit.leaderboards import audit
from ranker.domain.stored_log import to_stored_event
from ranker.postgres import PROJECTION, ReadModels
from ranker.postgres import SCHEMA as LIVE
from ranker.replay.postgres import Schemas, open_schemas
from ranker.replay.runner import ArchiveLog, FileLog, ReplayInput, fill_models, replay_schema
from ranker.service.decisions import Metrics
from ranker.service.progress import ProjectionProgress
from ranker.service.projection import project
from shared.api.audits import AuditReport, AuditRequest
from shared.errors import Refused
from shared.event_log import EventSource, Gap
from shared.postgres import connect, create_pool, migrate
from shared.verdicts import verify_verdict
from tests.ranker.audit_platform import AuditPlatform
from tests.ranker.replays import filling, replayed
from tests.support.lives import Life, evaluation_facts
from tests.support.memory import MemoryLog
from tests.support.servers import drop_schema
from tests.support.waits import eventually

pytestmark = pytest.mark.server


@pytest.fixture
async def platform(tmp_path: Path) -> AuditPlatform:
    platform = await AuditPlatform(tmp_path).found()
    await platform.live(Life("s1"), Life("s2", account="grace", time_us=50.0))
    for id_ in ("e1", "e2"):
        for aggregate, fact in evaluation_facts(id_):
            await platform.tell(aggregate, fact)
    return platform


async def copy(source: EventSource, dsn: str, schema: str, until: int) -> None:
    async with open_archive(dsn, schema) as fresh:
        await run_archiver(source, fresh, Metrics(), until=until)


@pytest.fixture
async def dsn(postgres_dsn: str, platform: AuditPlatform) -> str:
    """A database whose live read models have folded the log."""
    await fill_models(platform.log, postgres_dsn, LIVE, await platform.log.last())
    return postgres_dsn


async def spoil(dsn: str) -> None:
    async with await connect(dsn, LIVE) as connection:
        await connection.execute(b"update entry set score_us = 1 where account = 'ada'")


async def left(dsn: str) -> list[str]:
    """The remaining schemas of the projection."""
    find = b"select nspname from pg_namespace where nspname like 'rm_%' order by 1"
    async with await connect(dsn) as connection:
        return [name for (name,) in await (await connection.execute(find)).fetchall()]


@pytest.mark.feature("N15")
async def test_an_untouched_projection_is_equal_row_by_row(
    dsn: str, platform: AuditPlatform
) -> None:
    result = await replayed(dsn, platform.log, LIVE)
    assert (result.differences, result.seq) == ([], await platform.log.last())
    assert (result.rows["entry"], result.rows["submission"]) == (2, 2)
    evaluated = [result.rows[table] for table in ("evaluation", "evaluation_part", "verdict")]
    assert evaluated == [2, 10, 2], "a verdict for each of the equal sources"
    assert await left(dsn) == [LIVE]


async def test_a_changed_row_is_found_on_both_sides(dsn: str, platform: AuditPlatform) -> None:
    await spoil(dsn)
    result = await replayed(dsn, platform.log, LIVE)
    assert [difference["kind"] for difference in result.differences] == ["entry", "entry"]
    assert result.differences[0]["live"] is not None
    assert result.differences[1]["rebuilt"] is not None


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("evaluation", "update evaluation set device_s = 9 where id = 'e1'"),
        ("evaluation_part", "update evaluation_part set reason = 'x' where seq = {last}"),
        ("verdict", "update verdict set line = 9 where verdict = 'passed'"),
    ],
)
async def test_a_changed_evaluation_is_found_on_both_sides(
    dsn: str, platform: AuditPlatform, table: str, change: str
) -> None:
    # The last event but one cancelled an item.
    statement = change.format(last=await platform.log.last() - 1)
    async with await connect(dsn, LIVE) as connection:
        assert (await connection.execute(statement.encode())).rowcount == 1
    result = await replayed(dsn, platform.log, LIVE)
    assert [difference["kind"] for difference in result.differences] == [table, table]


async def test_a_switch_shows_the_fresh_rows_to_readers_at_once(
    dsn: str, platform: AuditPlatform
) -> None:
    await spoil(dsn)
    scores = b"select score_us from entry order by score_us"
    async with create_pool(dsn, 1, 1, LIVE) as connections, connections.connection() as reading:
        for _ in range(10):  # So often that the statement is prepared.
            await reading.execute(scores)
        before = await (await reading.execute(scores)).fetchall()
        result = await replayed(dsn, platform.log, LIVE, switch=True)
        after = await (await reading.execute(scores)).fetchall()
    assert (before, after) == ([(1.0,), (50.0,)], [(50.0,), (100.0,)])
    assert (result.is_switched, len(result.differences)) == (True, 2)
    assert await left(dsn) == [LIVE, f"{LIVE}_old"]


@asynccontextmanager
async def projecting(log: MemoryLog, dsn: str) -> AsyncIterator[ReadModels]:
    """Run the service's own projection."""

    async def run() -> None:
        async with await connect(dsn, LIVE) as connection:
            async for _ in project(log, ReadModels(connection), ProjectionProgress(), Metrics()):
                pass

    running = asyncio.create_task(run())
    try:
        async with await connect(dsn, LIVE) as connection:
            yield ReadModels(connection)
        assert not running.done(), running.exception()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_the_running_projector_goes_on_in_the_fresh_tables(
    dsn: str, platform: AuditPlatform
) -> None:
    async with projecting(platform.log, dsn) as models:
        for number in range(3, 6):
            result = await replayed(dsn, platform.log, LIVE, switch=True)
            assert result.differences == []
            await platform.live(Life(f"s{number}", account=f"a{number}", time_us=10.0 * number))
            await eventually(partial(is_at, models, await platform.log.last()))
    assert (await replayed(dsn, platform.log, LIVE)).differences == []


async def is_at(models: ReadModels, seq: int) -> bool:
    return await models.checkpoint() == seq


async def test_events_that_come_during_a_switch_are_folded_once(
    dsn: str, platform: AuditPlatform
) -> None:
    async def submit() -> None:
        for number in range(10, 30):
            await platform.live(Life(f"s{number}", account=f"a{number}", time_us=float(number)))
            await asyncio.sleep(0.01)

    async with projecting(platform.log, dsn) as models:
        submitting = asyncio.create_task(submit())
        for _ in range(3):
            assert (await replayed(dsn, platform.log, LIVE, switch=True)).differences == []
        await submitting
        await eventually(partial(is_at, models, await platform.log.last()))
    assert (await replayed(dsn, platform.log, LIVE)).differences == []


async def test_live_tables_that_move_on_while_the_source_is_asked_are_no_error(
    dsn: str, platform: AuditPlatform
) -> None:
    fresh = filling(dsn, platform.log)

    async def last() -> int:
        seq = await platform.log.last()
        if seq == first:
            await platform.live(Life("s3", account="eve"))
            await fill_models(platform.log, dsn, LIVE, await platform.log.last())
        return seq

    first = await platform.log.last()
    async with open_schemas(dsn, LIVE, PROJECTION) as schemas:
        result = await replay_schema(schemas, fresh._replace(last=last), switch=False)
    assert (result.differences, result.seq) == ([], await platform.log.last())


async def test_a_replay_that_is_over_holds_no_other_up(dsn: str, platform: AuditPlatform) -> None:
    async with open_schemas(dsn, LIVE, PROJECTION) as both:
        await replay_schema(both, filling(dsn, platform.log), switch=False)
        assert (await replayed(dsn, platform.log, LIVE)).differences == []


async def broken(dsn: str, both: Schemas, source: EventSource) -> None:
    async def fill(schema: str, until: int) -> None:
        await fill_models(source, dsn, schema, until // 2)
        raise Gap("the log broke off")

    replay_input = ReplayInput(lambda fresh: migrate(dsn, "ranker", fresh), fill, source.last)
    with pytest.raises(Gap):
        await replay_schema(both, replay_input, switch=True)


async def test_a_replay_that_breaks_off_leaves_the_live_tables_alone(
    dsn: str, platform: AuditPlatform
) -> None:
    async with open_schemas(dsn, LIVE, PROJECTION) as both:
        await broken(dsn, both, platform.log)
    assert await left(dsn) == [LIVE]
    assert (await replayed(dsn, platform.log, LIVE)).differences == []


async def test_what_a_killed_replay_left_is_dropped_by_the_next(
    dsn: str, platform: AuditPlatform
) -> None:
    migrate(dsn, "ranker", f"{LIVE}_fresh")
    await fill_models(platform.log, dsn, f"{LIVE}_fresh", 5)
    assert (await replayed(dsn, platform.log, LIVE)).differences == []
    assert await left(dsn) == [LIVE]


async def test_two_replays_of_one_projection_do_not_meet(dsn: str, platform: AuditPlatform) -> None:
    async with open_schemas(dsn, LIVE, PROJECTION) as schemas:
        await schemas.take_turn()
        with pytest.raises(Refused, match="another replay of ranker is running"):
            await replayed(dsn, platform.log, LIVE)
    assert (await replayed(dsn, platform.log, LIVE)).differences == []


async def test_a_new_version_of_the_tables_is_filled_before_its_service(
    postgres_dsn: str, platform: AuditPlatform
) -> None:
    drop_schema(postgres_dsn, LIVE)
    result = await replayed(postgres_dsn, platform.log, LIVE, switch=True)
    assert (result.is_compared, result.is_switched) == (False, True)
    assert migrate(postgres_dsn, "ranker", LIVE) == 0
    assert (await replayed(postgres_dsn, platform.log, LIVE)).is_compared


async def test_the_archive_and_a_file_are_sources_too(
    dsn: str, platform: AuditPlatform, tmp_path: Path
) -> None:
    last = await platform.log.last()
    await copy(platform.log, dsn, "archive", last)
    async with open_archive(dsn) as result:
        assert (await replayed(dsn, ArchiveLog(result), LIVE)).differences == []
        spoil_it = b"update event_archive set body = body || ' '::bytea where seq = 4"
        await result.connection.execute(spoil_it)
        with pytest.raises(Gap, match="chain breaks at event 4"):
            await replayed(dsn, ArchiveLog(result), LIVE)
    writer = LogFileWriter(tmp_path / "log.gz", last, None)
    for event in platform.log.since(0):
        writer.write(to_stored_event(event))
    writer.close()
    reader = LogFileReader(tmp_path / "log.gz")
    assert (await replayed(dsn, FileLog(reader.events, last), LIVE)).differences == []


async def test_a_source_that_is_too_short_is_refused(dsn: str) -> None:
    with pytest.raises(Refused, match="the source ends at 3"):
        await replayed(dsn, FileLog(lambda: iter([]), 3), LIVE)


async def test_a_spoilt_archive_is_mended_from_the_log(dsn: str, platform: AuditPlatform) -> None:
    migrate(dsn, PACKAGE, LIVE + "_archive")
    schema, log = LIVE + "_archive", platform.log
    await copy(log, dsn, schema, await log.last())

    async def fill(fresh: str, until: int) -> None:
        await copy(log, dsn, fresh, until)

    replay_input = ReplayInput(lambda fresh: migrate(dsn, PACKAGE, fresh), fill, log.last)
    async with open_archive(dsn, schema) as archiving:
        spoil_it = b"update event_archive set body = 'x'::bytea, h = 'y'::bytea where seq = 4"
        await archiving.connection.execute(spoil_it)
        assert (await audited(archiving, log)).findings[0].seq == 4
        async with open_schemas(dsn, schema, "archive") as both:
            result = await replay_schema(both, replay_input, switch=True)
        assert [difference["kind"] for difference in result.differences] == ["event_archive"] * 2
        await platform.live(Life("s9", account="eve"))
        await run_archiver(log, archiving, Metrics(), until=await log.last())
        assert (await audited(archiving, log)).is_clean


async def audited(archiving: Archive, log: MemoryLog) -> AuditReport:
    return await audit(AuditRequest("identity", "CPU"), ArchiveCopy(archiving, log), verify_verdict)
