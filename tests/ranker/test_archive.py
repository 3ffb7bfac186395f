"""The archive on a real Postgres: every byte, an unbroken chain, and verifiable seals."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from ranker.archive.archiver import ArchiveService, SealConfig, Sealer, run_archiver
from ranker.archive.postgres import Archive, ArchiveReader, open_archive
from ranker.domain.stored_log import (
    CHAIN_START,
    SEAL_AGGREGATE,
    SealInterval,
    is_seal_due,
    to_stored_event,
)
from ranker.service.decisions import Metrics
from shared.event_log import Gap, NewEvent, RecordedEvent
from shared.events import AuditSealed
from shared.postgres import CheckpointConflict, create_pool
from shared.signing import load_key, public_key
from shared.verdicts import verify_verdict
from shared.wire import EventMetadata, make_envelope
from tests.support.lives import T0, Life, live, publish
from tests.support.memory import MemoryLog
from tests.support.waits import eventually

pytestmark = pytest.mark.server
OFTEN = SealInterval(events=3, s=3600)


class Well:
    """Records health reports."""

    def __init__(self) -> None:
        self.parts: dict[str, str | None] = {}

    def report_unhealthy(self, part: str, reason: str | None) -> None:
        """Record a report."""
        self.parts[part] = reason


@pytest.fixture
async def copy(postgres_dsn: str) -> AsyncIterator[Archive]:
    async with open_archive(postgres_dsn) as archive:
        yield archive


async def full() -> MemoryLog:
    log = MemoryLog()
    await publish(log)
    await live(log, Life("s1"), Life("s2", account="grace"))
    return log


async def test_every_byte_of_the_log_is_kept_and_chained(copy: Archive) -> None:
    log = await full()
    await run_archiver(log, copy, Metrics(), until=5)
    await run_archiver(log, copy, Metrics(), until=await log.last())
    rows = await copy.page(0, 100)
    h = CHAIN_START
    for row, event in zip(rows, log.since(0), strict=True):
        h = to_stored_event(event).chain_after(h)
        assert (row.seq, row.body, row.h) == (event.seq, event.body, h)
        assert row.subject == f"events.{event.envelope.aggregate}"
        assert row.recorded == event
    assert await copy.head() == (await log.last(), h)


class PositionMetrics(Metrics):
    """Metrics that remember the reported positions."""

    def __init__(self) -> None:
        self.positions: list[tuple[int, int]] = []

    def archived(self, seq: int, behind: int) -> None:
        """Remember a position and how many events are waiting."""
        self.positions.append((seq, behind))


async def test_a_restarted_archiver_reports_its_position_before_a_new_event(copy: Archive) -> None:
    log, metrics = await full(), PositionMetrics()
    last = await log.last()
    await run_archiver(log, copy, Metrics(), until=last)
    restarted = asyncio.create_task(run_archiver(log, copy, metrics))
    await eventually(lambda: metrics.positions)
    restarted.cancel()
    assert metrics.positions == [(last, 0)]


async def test_a_second_archiver_is_fenced_and_writes_nothing(copy: Archive) -> None:
    log = await full()
    await copy.write(0, log.since(0)[:3])
    with pytest.raises(CheckpointConflict):
        await copy.write(0, log.since(0)[:3])
    assert (await copy.head())[0] == 3


async def test_an_archiver_that_waits_for_events_notices_what_postgres_lost(
    copy: Archive, postgres_dsn: str
) -> None:
    log, metrics = await full(), PositionMetrics()
    archiving = asyncio.create_task(run_archiver(log, copy, metrics))
    last = await log.last()
    await eventually(lambda: (last, 0) in metrics.positions)
    async with open_archive(postgres_dsn) as other:
        await other.connection.execute("update checkpoint set seq = seq - 1 where name = 'archive'")
    with pytest.raises(CheckpointConflict):
        await asyncio.wait_for(archiving, 30)


async def test_a_log_that_is_shorter_than_its_archive_is_refused(copy: Archive) -> None:
    log = await full()
    await run_archiver(log, copy, Metrics(), until=await log.last())
    with pytest.raises(Gap):
        await run_archiver(MemoryLog(), copy, Metrics())


def sealed(seq: int, upto: int) -> RecordedEvent:
    fact = AuditSealed(seq=upto, chain="00", count=upto)
    return RecordedEvent(
        seq, make_envelope(fact, SEAL_AGGREGATE, EventMetadata("i", T0, "", "", ""))
    )


@pytest.mark.parametrize(
    ("seq", "last", "after_s", "expected"),
    [
        (0, None, 0, False),
        (1, None, 0, True),
        (11, sealed(11, 10), 7200, False),
        (12, sealed(11, 10), 0, False),
        (12, sealed(11, 10), 3600, True),
        (13, sealed(11, 10), 0, True),
    ],
)
def test_a_seal_is_due_by_count_or_by_age_and_never_for_itself(
    seq: int, last: RecordedEvent | None, after_s: int, *, expected: bool
) -> None:
    assert is_seal_due(seq, last, T0 + timedelta(seconds=after_s), OFTEN) is expected


async def test_a_seal_names_the_chain_and_its_signature_holds(
    copy: Archive, tmp_path: Path
) -> None:
    log, key = await full(), load_key(tmp_path / "seal.key")
    last = await log.last()
    await run_archiver(log, copy, Metrics(), until=last)
    sealer = Sealer(log, copy, key, OFTEN, Metrics())
    await sealer.look()
    await sealer.look()  # The archive has not seen the first one yet.
    await run_archiver(log, copy, Metrics(), until=last + 1)
    await sealer.look()
    (event,) = log.since(last)
    (row,) = await copy.page(last - 1, 1)
    assert row.h is not None
    assert event.fact == AuditSealed(seq=last, chain=row.h.hex(), count=last)
    data, sig = bytes(event.envelope.data), event.envelope.sig or ""
    assert verify_verdict(public_key(key), SEAL_AGGREGATE, last, data, sig)
    assert not verify_verdict(public_key(key), SEAL_AGGREGATE, last - 1, data, sig)


async def test_seals_are_read_newest_first(copy: Archive, postgres_dsn: str) -> None:
    log = MemoryLog()
    await log.append(NewEvent(sealed(1, 1).envelope, 0))
    second = msgspec.structs.replace(sealed(2, 2).envelope, id="second")
    await log.append(NewEvent(second, 1))
    await run_archiver(log, copy, Metrics(), until=2)
    async with create_pool(postgres_dsn, 1, 1) as connections:
        seals = await ArchiveReader(connections).read_seals(10)
    assert [item.seq for item in seals] == [2, 1]


async def test_it_runs_beside_the_log_and_seals_it(postgres_dsn: str, tmp_path: Path) -> None:
    log, life = await full(), Well()
    archiving = ArchiveService(log, postgres_dsn, life.report_unhealthy)
    sealing = SealConfig(load_key(tmp_path / "seal.key"), OFTEN)
    running = [
        asyncio.create_task(archiving.keep()),
        asyncio.create_task(archiving.seal(sealing)),
    ]
    try:
        before = await log.last()
        await eventually(lambda: len(log.since(before)) > 0)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    assert isinstance(log.since(before)[0].fact, AuditSealed)
    assert life.parts == {"archive": None, "seals": None}
