"""An audit of a platform's own archive and read models, spoilt by whoever has the database."""

import gzip
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from ranker.__main__ import SCHEMA as LIVE
from ranker.archive.keeping import keep
from ranker.archive.postgres import Archive, Shelf, archive
from ranker.audit.auditing import Live, Question, audit
from ranker.audit.copies import ArchiveCopy, FileCopy
from ranker.commands.auditing import shown_entries
from ranker.commands.replaying import Unwatched
from ranker.domain.report import Report
from ranker.domain.scrutiny import Finding
from ranker.export.file import Reader, Writer
from ranker.http.audit import audit as audit_reads
from ranker.postgres import ReadModels
from ranker.service import Board, News, project
from shared.event_log import New, Recorded
from shared.http import install
from shared.memory import MemoryLog
from shared.postgres import connect, pool
from shared.signing import verify
from tests.ranker.audited import Town
from tests.support.lives import T0, Life, NoMetrics

pytestmark = pytest.mark.server


@pytest.fixture
async def town(tmp_path: Path) -> Town:
    town = await Town(tmp_path).found()
    await town.live(Life("s1"), Life("s2", account="grace", time_us=50.0))
    await town.seal()
    return town


@dataclass
class Place:
    """The archive and the read models of a town."""

    town: Town
    archive: Archive
    models: ReadModels

    async def audited(self) -> Report:
        """What `warpboard audit identity CPU` finds."""
        entries = await shown_entries(self.models, Board("identity", "CPU", 1), T0)
        seq = await self.models.checkpoint()
        question = Question("identity", "CPU", keys=[self.town.seal_key], as_of_seq=seq)
        copy = ArchiveCopy(self.archive, self.town.log)
        return await audit(question, copy, verify, Live(seq, T0, entries))

    async def spoil(self, statement: str) -> None:
        """Somebody has the password of the database."""
        await self.archive.connection.execute(statement.encode())


@pytest.fixture
async def place(postgres_dsn: str, town: Town) -> AsyncIterator[Place]:
    last = await town.log.last()
    async with archive(postgres_dsn) as kept, await connect(postgres_dsn, LIVE) as connection:
        models = ReadModels(connection)
        await keep(town.log, kept, Unwatched(), until=last)
        async for _ in project(town.log, models, News(), NoMetrics(), until=last):
            pass
        yield Place(town, kept, models)


async def test_a_platform_that_nobody_touched_is_clean(place: Place) -> None:
    report = await place.audited()
    assert (report.findings, report.differences) == ([], [])
    assert (len(report.rows), report.verified, report.seals) == (2, 2, 1)


FLIP = "update event_archive set body = set_byte(body, 30, get_byte(body, 30) # 1) where seq = 7"
FORGED = "update event_archive set body = convert_to(replace(convert_from(body, 'UTF8'), "


@pytest.mark.parametrize(
    ("spoil", "seq", "what"),
    [
        (FLIP, 7, "hash chain breaks"),
        (f"{FORGED}'50.0', '5.0'), 'UTF8') where seq = 18", 18, "hash chain breaks"),
        ("update event_archive set h = sha256(h) where seq = 5", 5, "hash chain breaks"),
        ("delete from event_archive where seq = 9", 9, "missing: after 8 comes 10"),
        ("delete from event_archive where seq > 15", 16, "the archive ends at 15"),
        ("update event_archive set subject = 'events.x' where seq = 3", 3, "hash chain breaks"),
    ],
)
async def test_whatever_is_changed_in_the_archive_is_named(
    place: Place, spoil: str, seq: int, what: str
) -> None:
    await place.spoil(spoil)
    report = await place.audited()
    assert report.findings[0].seq == seq
    assert any(what in finding.what for finding in report.findings if finding.seq == seq)


async def test_an_archive_that_is_not_the_log_is_named(place: Place) -> None:
    other = MemoryLog()
    for event in place.town.log.since(0)[:-1]:
        await other.append(New(event.envelope, None))
    report = await audit(Question("identity", "CPU"), ArchiveCopy(place.archive, other), verify)
    last = await place.town.log.last()
    assert report.findings == [
        Finding(last, f"the log ends at {last - 1}, but its archive has {last} events")
    ]


@pytest.mark.parametrize(
    ("spoil", "difference"),
    [
        ("entry set score_us = 1 where account = 'ada'", "ada: score_us is shown as 1.0"),
        ("entry set account = 'eve' where account = 'ada'", "ada is missing"),
        ("entry set submission = 's2' where account = 'ada'", "ada: submission is shown as s2"),
        ("tie_group set entries_count = entries_count + 3", "rank is shown as"),
    ],
)
async def test_a_leaderboard_that_was_edited_is_named(
    place: Place, spoil: str, difference: str
) -> None:
    await place.spoil(f"update {LIVE}.{spoil}")
    report = await place.audited()
    assert report.findings == []
    assert difference in report.differences[0]
    assert "NOT EQUAL" in "\n".join(report.lines())


async def test_a_file_is_audited_without_any_server(town: Town, tmp_path: Path) -> None:
    file = tmp_path / "log.gz"
    writer = Writer(file, len(town.rows()), town.seal_key)
    for row in town.rows():
        writer.write(row)
    writer.close()
    question = Question("identity", "CPU", keys=[town.seal_key])
    report = await audit(question, FileCopy(Reader(file)), verify)
    assert (report.is_clean, len(report.rows)) == (True, 2)
    lines = gzip.decompress(file.read_bytes()).splitlines(keepends=True)
    lines[-1] = lines[-1].replace(b'"h":"', b'"h":"0')
    file.write_bytes(gzip.compress(b"".join(lines)))
    report = await audit(question, FileCopy(Reader(file)), verify)
    assert [one.what for one in report.findings] == ["the chain is not the one in the last line"]
    file.write_bytes(gzip.compress(b"".join(lines[:6])))
    report = await audit(question, FileCopy(Reader(file)), verify)
    assert report.findings == [Finding(6, "the file ends after event 5, before its last line")]


async def test_seals_and_their_key_are_public(place: Place, postgres_dsn: str) -> None:
    async with pool(postgres_dsn, 1, 1) as connections:
        app = FastAPI()
        install(app)
        audit_reads(app, Shelf(connections), place.town.seal_key)
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://ranker"
        ) as http:
            key = (await http.get("/v1/audit/key")).json()["key"]
            (seal,) = (await http.get("/v1/audit/seals")).json()["items"]
    assert key == place.town.seal_key
    rows = place.town.rows()
    assert rows[seal["sealed_seq"] - 1].h == bytes.fromhex(seal["chain"])
    data = seal["data"].encode()
    assert verify(key, "audit.seal", seal["sealed_seq"], data, seal["sig"])


async def test_without_a_key_the_public_read_says_so() -> None:
    app = FastAPI()
    install(app)
    audit_reads(app, NoSeals(), None)
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://ranker"
    ) as http:
        assert (await http.get("/v1/audit/key")).status_code == 404
        assert (await http.get("/v1/audit/seals")).json() == {"items": [], "key": None}


class NoSeals:
    """A platform that seals nothing."""

    async def newest(self, limit: int) -> list[Recorded]:
        """At most none."""
        return [][:limit]
