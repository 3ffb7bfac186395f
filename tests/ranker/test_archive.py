"""The archive on a real Postgres: every byte, an unbroken chain, and seals that can be checked."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from ranker.archive.keeping import Sealer, keep
from ranker.archive.postgres import Archive, Shelf, archive
from ranker.archive.running import Archiving, Sealing
from ranker.commands.replaying import Unwatched
from ranker.domain.kept import kept
from ranker.domain.seals import AGGREGATE, Rhythm, is_due
from shared import chain
from shared.event_log import Gap, New, Recorded
from shared.events import AuditSealed
from shared.memory import MemoryLog
from shared.postgres import Fenced, pool
from shared.signing import load_key, public_key, verify
from shared.testing import eventually
from shared.wire import Stamp, seal
from tests.support.lives import T0, Life, live, publish

pytestmark = pytest.mark.server
OFTEN = Rhythm(events=3, s=3600)


class Well:
    """Remembers what ails."""

    def __init__(self) -> None:
        self.parts: dict[str, str | None] = {}

    def ail(self, part: str, reason: str | None) -> None:
        """Note it."""
        self.parts[part] = reason


@pytest.fixture
async def copy(postgres_dsn: str) -> AsyncIterator[Archive]:
    async with archive(postgres_dsn) as found:
        yield found


async def full() -> MemoryLog:
    log = MemoryLog()
    await publish(log)
    await live(log, Life("s1"), Life("s2", account="grace"))
    return log


async def test_every_byte_of_the_log_is_kept_and_chained(copy: Archive) -> None:
    log = await full()
    await keep(log, copy, Unwatched(), until=5)
    await keep(log, copy, Unwatched(), until=await log.last())
    rows = await copy.page(0, 100)
    h = chain.START
    for row, event in zip(rows, log.since(0), strict=True):
        h = chain.after(h, kept(event).link)
        assert (row.seq, row.body, row.h) == (event.seq, event.body, h)
        assert row.subject == f"events.{event.envelope.agg}"
        assert row.recorded == event
    assert await copy.head() == (await log.last(), h)


async def test_a_second_archiver_is_fenced_and_writes_nothing(copy: Archive) -> None:
    log = await full()
    await copy.write(0, log.since(0)[:3])
    with pytest.raises(Fenced):
        await copy.write(0, log.since(0)[:3])
    assert (await copy.head())[0] == 3


async def test_a_log_that_is_shorter_than_its_archive_is_refused(copy: Archive) -> None:
    log = await full()
    await keep(log, copy, Unwatched(), until=await log.last())
    with pytest.raises(Gap):
        await keep(MemoryLog(), copy, Unwatched())


def sealed(seq: int, upto: int) -> Recorded:
    fact = AuditSealed(seq=upto, chain="00", count=upto)
    return Recorded(seq, seal(fact, AGGREGATE, Stamp("i", T0, "", "", "")))


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
    seq: int, last: Recorded | None, after_s: int, *, expected: bool
) -> None:
    assert is_due(seq, last, T0 + timedelta(seconds=after_s), OFTEN) is expected


async def test_a_seal_names_the_chain_and_its_signature_holds(
    copy: Archive, tmp_path: Path
) -> None:
    log, key = await full(), load_key(tmp_path / "seal.key")
    last = await log.last()
    await keep(log, copy, Unwatched(), until=last)
    sealer = Sealer(log, copy, key, OFTEN, Unwatched())
    await sealer.look()
    await sealer.look()  # The archive has not seen the first one yet.
    await keep(log, copy, Unwatched(), until=last + 1)
    await sealer.look()
    (event,) = log.since(last)
    (row,) = await copy.page(last - 1, 1)
    assert row.h is not None
    assert event.fact == AuditSealed(seq=last, chain=row.h.hex(), count=last)
    data, sig = bytes(event.envelope.data), event.envelope.sig or ""
    assert verify(public_key(key), AGGREGATE, last, data, sig)
    assert not verify(public_key(key), AGGREGATE, last - 1, data, sig)


async def test_seals_are_read_newest_first(copy: Archive, postgres_dsn: str) -> None:
    log = MemoryLog()
    await log.append(New(sealed(1, 1).envelope, 0))
    second = msgspec.structs.replace(sealed(2, 2).envelope, id="second")
    await log.append(New(second, 1))
    await keep(log, copy, Unwatched(), until=2)
    async with pool(postgres_dsn, 1, 1) as connections:
        found = await Shelf(connections).newest(10)
    assert [one.seq for one in found] == [2, 1]


async def test_it_runs_beside_the_log_and_seals_it(postgres_dsn: str, tmp_path: Path) -> None:
    log, life = await full(), Well()
    archiving = Archiving(log, postgres_dsn, life)
    sealing = Sealing(load_key(tmp_path / "seal.key"), OFTEN)
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
