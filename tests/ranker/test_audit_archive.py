"""Audits of a platform whose archive or read models were changed in the database."""

import gzip
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from psycopg_pool import AsyncConnectionPool

from ranker.archive.archiver import run_archiver
from ranker.archive.log_file import LogFileReader, LogFileWriter
from ranker.archive.postgres import Archive, ArchiveReader, open_archive
from ranker.audit.command import ArchiveCopy, FileCopy, read_entries
from ranker.audit.leaderboards import LiveLeaderboard, audit
from ranker.audit.report import report_lines
from ranker.domain.rows import LeaderboardKey
from ranker.http import create_app
from ranker.http.access import ReadSources
from ranker.postgres import SCHEMA as LIVE
from ranker.postgres import Reader, ReadModels
from ranker.service.decisions import Metrics
from ranker.service.progress import Live, ProjectionProgress
from ranker.service.projection import project
from shared.api.audits import AuditReport, AuditRequest, Finding
from shared.event_log import NewEvent
from shared.postgres import connect, create_pool
from shared.verdicts import verify_verdict
from tests.ranker.audit_platform import AuditPlatform
from tests.support.lives import T0, Life
from tests.support.memory import MemoryBlobStore, MemoryLog

pytestmark = pytest.mark.server


@pytest.fixture
async def platform(tmp_path: Path) -> AuditPlatform:
    platform = await AuditPlatform(tmp_path).found()
    await platform.live(Life("s1"), Life("s2", account="grace", time_us=50.0))
    await platform.seal()
    return platform


@dataclass
class Place:
    """The archive and the read models of a platform."""

    platform: AuditPlatform
    archive: Archive
    models: ReadModels

    async def audited(self) -> AuditReport:
        """The report of `warpboard server audit identity CPU`."""
        entries = await read_entries(self.models, LeaderboardKey("identity", "CPU", 1), T0)
        seq = await self.models.checkpoint()
        question = AuditRequest("identity", "CPU", keys=[self.platform.seal_key], as_of_seq=seq)
        copy = ArchiveCopy(self.archive, self.platform.log)
        return await audit(question, copy, verify_verdict, LiveLeaderboard(seq, T0, entries))

    async def spoil(self, statement: str) -> None:
        """Change the database behind the platform's back."""
        await self.archive.connection.execute(statement.encode())


@pytest.fixture
async def place(postgres_dsn: str, platform: AuditPlatform) -> AsyncIterator[Place]:
    last = await platform.log.last()
    async with (
        open_archive(postgres_dsn) as archive,
        await connect(postgres_dsn, LIVE) as connection,
    ):
        models = ReadModels(connection)
        await run_archiver(platform.log, archive, Metrics(), until=last)
        async for _ in project(platform.log, models, ProjectionProgress(), Metrics(), until=last):
            pass
        yield Place(platform, archive, models)


async def test_a_platform_that_nobody_touched_is_clean(place: Place) -> None:
    report = await place.audited()
    assert (report.findings, report.differences) == ([], [])
    assert (len(report.rows), report.verified_runs, report.seals) == (2, 2, 1)


FLIP = "update event_archive set body = set_byte(body, 30, get_byte(body, 30) # 1) where seq = 7"
FORGED = "update event_archive set body = convert_to(replace(convert_from(body, 'UTF8'), "


@pytest.mark.parametrize(
    ("spoil", "seq", "text"),
    [
        (FLIP, 7, "hash chain breaks"),
        (f"{FORGED}'50.0', '5.0'), 'UTF8') where seq = 13", 13, "hash chain breaks"),
        ("update event_archive set h = sha256(h) where seq = 5", 5, "hash chain breaks"),
        ("delete from event_archive where seq = 9", 9, "missing: after 8 comes 10"),
        ("delete from event_archive where seq > 12", 13, "the archive ends at 12"),
        ("update event_archive set subject = 'events.x' where seq = 3", 3, "hash chain breaks"),
    ],
)
async def test_whatever_is_changed_in_the_archive_is_named(
    place: Place, spoil: str, seq: int, text: str
) -> None:
    await place.spoil(spoil)
    report = await place.audited()
    assert report.findings[0].seq == seq
    assert any(text in finding.what for finding in report.findings if finding.seq == seq)


async def test_an_archive_that_is_not_the_log_is_named(place: Place) -> None:
    other = MemoryLog()
    for event in place.platform.log.since(0)[:-1]:
        await other.append(NewEvent(event.envelope, None))
    report = await audit(
        AuditRequest("identity", "CPU"), ArchiveCopy(place.archive, other), verify_verdict
    )
    last = await place.platform.log.last()
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
    assert "NOT EQUAL" in "\n".join(report_lines(report))


async def test_a_file_is_audited_without_any_server(
    platform: AuditPlatform, tmp_path: Path
) -> None:
    file = tmp_path / "log.gz"
    writer = LogFileWriter(file, len(platform.rows()), platform.seal_key)
    for row in platform.rows():
        writer.write(row)
    writer.close()
    question = AuditRequest("identity", "CPU", keys=[platform.seal_key])
    report = await audit(question, FileCopy(LogFileReader(file)), verify_verdict)
    assert (report.is_clean, len(report.rows)) == (True, 2)
    lines = gzip.decompress(file.read_bytes()).splitlines(keepends=True)
    lines[-1] = lines[-1].replace(b'"h":"', b'"h":"0')
    file.write_bytes(gzip.compress(b"".join(lines)))
    report = await audit(question, FileCopy(LogFileReader(file)), verify_verdict)
    assert [finding.what for finding in report.findings] == [
        "the chain is not the one in the last line"
    ]
    file.write_bytes(gzip.compress(b"".join(lines[:6])))
    report = await audit(question, FileCopy(LogFileReader(file)), verify_verdict)
    assert report.findings == [Finding(6, "the file ends after event 5, before its last line")]


def read_app(connections: AsyncConnectionPool, seal_key: str | None) -> FastAPI:
    """The read API over the archive of a database."""
    log, reader = MemoryLog(), Reader(connections)
    archive = ArchiveReader(connections)
    return create_app(
        ReadSources(
            *(reader, ProjectionProgress(), Live(), log.last, MemoryBlobStore(), archive),
            seal_key=seal_key,
        )
    )


async def test_seals_and_their_key_are_public(place: Place, postgres_dsn: str) -> None:
    async with create_pool(postgres_dsn, 1, 1) as connections:
        app = read_app(connections, place.platform.seal_key)
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://ranker"
        ) as http:
            key = (await http.get("/v1/audit/key")).json()["key"]
            (seal,) = (await http.get("/v1/audit/seals")).json()["items"]
    assert key == place.platform.seal_key
    rows = place.platform.rows()
    assert rows[seal["sealed_seq"] - 1].h == bytes.fromhex(seal["chain"])
    data = seal["data"].encode()
    assert verify_verdict(key, "audit.seal", seal["sealed_seq"], data, seal["sig"])


async def test_without_a_key_the_public_read_says_so(postgres_dsn: str) -> None:
    async with create_pool(postgres_dsn, 1, 1) as connections:
        app = read_app(connections, None)
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://ranker"
        ) as http:
            assert (await http.get("/v1/audit/key")).status_code == 404
            assert (await http.get("/v1/audit/seals")).json() == {"items": [], "key": None}
