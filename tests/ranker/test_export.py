"""The recovery drill: export a log, import it on other servers, and compare everything."""

import asyncio
import gzip
import json
import os
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec import structs

from ranker.archive.archiver import run_archiver
from ranker.archive.log_file import LogFileReader, LogFileWriter
from ranker.archive.postgres import PACKAGE, open_archive
from ranker.archive.postgres import SCHEMA as ARCHIVE
from ranker.blobs import load_blobs, save_blobs
from ranker.export.backup import check_restorable, export_log, import_log
from ranker.postgres import SCHEMA, ReadModels
from ranker.service.decisions import Metrics
from ranker.service.progress import ProjectionProgress
from ranker.service.projection import project
from ranker.settings import Settings
from shared import subjects
from shared.errors import Refused
from shared.event_log import NewEvent
from shared.events import HARNESS_CODE, AgentRegistered, ProblemPublished, ProjectionSwitched
from shared.nats.blobs import NatsBlobStore
from shared.nats.connection import connect as connect_nats
from shared.nats.event_log import NatsLog
from shared.nats.streams import ensure_streams
from shared.postgres import connect, migrate
from shared.settings import Listen
from tests.ranker.audit_platform import AuditPlatform
from tests.support.examples import example_event
from tests.support.lives import AGENT, Life
from tests.support.memory import MemoryBlobStore, MemoryLog
from tests.support.servers import SharedNats, prepared_database

# asyncio lets go of the pipes of a process that was killed while somebody waited for it.
pytestmark = [
    pytest.mark.long,
    pytest.mark.server,
    pytest.mark.filterwarnings("ignore:.*PipeTransport:pytest.PytestUnraisableExceptionWarning"),
]
NOWHERE = Listen("127.0.0.1", 0)


@pytest.fixture
async def platform(tmp_path: Path) -> AuditPlatform:
    platform = await AuditPlatform(tmp_path).found()
    await platform.live(Life("s1"))
    await platform.seal()
    await platform.live(Life("s2", account="grace", time_us=50.0))
    return platform


@asynccontextmanager
async def logging_to(url: str) -> AsyncIterator[tuple[NatsLog, NatsBlobStore]]:
    nc = await connect_nats(url, "test")
    try:
        await ensure_streams(nc)
        yield NatsLog(nc), NatsBlobStore(nc)
    finally:
        await nc.close()


async def rank(log: NatsLog, dsn: str) -> None:
    """Fold and archive as the service would have."""
    migrate(dsn, "shared", "accounts")
    migrate(dsn, "ranker", SCHEMA)
    migrate(dsn, PACKAGE, ARCHIVE)
    last = await log.last()
    async with await connect(dsn, SCHEMA) as connection, open_archive(dsn) as archive:
        models = ReadModels(connection)
        async for _ in project(log, models, ProjectionProgress(), Metrics(), until=last):
            pass
        await run_archiver(log, archive, Metrics(), until=last)


def environ(settings: Settings) -> dict[str, str]:
    """The environment of the service."""
    variables = {
        "NATS_URL": settings.nats_url,
        "NATS_CREDENTIALS": settings.nats_credentials,
        "POSTGRES_DSN": settings.postgres_dsn,
        "LISTEN": "127.0.0.1:1",
        "OPS_LISTEN": "127.0.0.1:1",
        "READER_KEY": "k" * 16,
        "SEAL_KEY": str(settings.seal_key),
    }
    return os.environ | {f"WARPBOARD_RANKER_{key}": value for key, value in variables.items()}


async def started(settings: Settings, *arguments: str) -> Process:
    """Start `python -m ranker` with these arguments."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ranker", *arguments),
        env=environ(settings),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def command(settings: Settings, *arguments: str) -> tuple[int, Any]:
    """Run a command; returns its exit code and output."""
    process = await started(settings, *arguments)
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    assert process.returncode is not None
    assert out or err
    return process.returncode, json.loads(out) if out else err.decode()


class Places(NamedTuple):
    """Two platforms: the old one and its replacement."""

    old: Settings
    new: Settings
    folder: Path


@pytest.fixture
def places(shared_nats: SharedNats, postgres_server_dsn: str, tmp_path: Path) -> Iterator[Places]:
    """Two empty platforms with the same seal key."""
    with (
        prepared_database(postgres_server_dsn) as old_dsn,
        prepared_database(postgres_server_dsn) as other,
    ):
        key, rest = tmp_path / "seal.key", (NOWHERE, NOWHERE, "k" * 16)
        yield Places(
            Settings(old_dsn, *rest, nats_url=shared_nats.fresh_url(), seal_key=key),
            Settings(other, *rest, nats_url=shared_nats.fresh_url(), seal_key=key),
            tmp_path,
        )


async def fill(places: Places, platform: AuditPlatform) -> None:
    """Append a history and fold it."""
    async with logging_to(places.old.nats_url) as (log, _):
        for event in platform.log.since(0):
            await log.append(NewEvent(event.envelope, None))
        await rank(log, places.old.postgres_dsn)


async def followed(log: NatsLog, count: int) -> list[tuple[int, bytes]]:
    """The first events of a log, as stored."""
    feed, events_ = log.follow(0), list[tuple[int, bytes]]()
    async with asyncio.timeout(30):
        while len(events_) < count:
            events_ += [(item.seq, item.body) for item in await feed.take(count - len(events_))]
    await feed.close()
    return events_


async def test_a_log_moves_to_other_servers_and_all_is_as_it_was(
    places: Places, platform: AuditPlatform
) -> None:
    old, new, folder = places
    async with logging_to(old.nats_url) as (_, blobs):
        source = await blobs.put(b"x" * 100_000)
        code_of = await blobs.put(b"the harness code")
    offer = structs.replace(example_event(AgentRegistered), details={HARNESS_CODE: code_of.digest})
    await platform.say(subjects.agent(AGENT), offer)
    await platform.live(Life("s3", "linus", 75.0, artefact=source, harness_code=code_of.digest))
    await fill(places, platform)
    code, output = await command(old, "audit", "identity", "CPU", "--json")
    assert (code, output["findings"], output["differences"]) == (0, [], [])
    file = folder / "log.gz"
    code, exported = await command(old, "export", str(file))
    assert (code, exported["events"], exported["blobs"]) == (0, len(platform.log.since(0)), 2)

    code, imported = await command(new, "import", str(file))
    assert (code, imported["chain"]) == (0, exported["chain"])
    async with logging_to(new.nats_url) as (log, blobs):
        assert await blobs.get(source.digest) == b"x" * 100_000
        assert await blobs.get(code_of.digest) == b"the harness code"
        stored = [(event.seq, event.body) for event in platform.log.since(0)]
        assert await followed(log, len(stored)) == stored
        await rank(log, new.postgres_dsn)
    code, again = await command(new, "audit", "identity", "CPU", "--json")
    assert (code, again["findings"], again["differences"]) == (0, [], [])
    assert again["rows"] == output["rows"]
    code, rebuilt = await command(new, "rebuild")
    assert (code, rebuilt["is_equal"], rebuilt["entries"]) == (0, True, 3)
    code, rebuilt = await command(new, "replay", "--projection", "archive", "--switch")
    assert (code, rebuilt["is_equal"], rebuilt["is_switched"]) == (0, True, True)
    async with logging_to(new.nats_url) as (log, _):
        (switched,) = await log.history("audit.projection")
        assert isinstance(switched.fact, ProjectionSwitched)
        assert (switched.fact.name, switched.fact.is_equal) == ("archive", True)
    code, offline = await command(new, "audit", "identity", "CPU", "--file", str(file), "--json")
    assert (code, offline["rows"]) == (0, output["rows"])
    assert (await command(new, "import", str(file)))[0] == 2
    async with await connect(new.postgres_dsn, SCHEMA) as connection:
        await connection.execute(
            b"update entry set score_us = 1, placed_us = 1 where account = 'ada'"
        )
    code, spoilt = await command(new, "audit", "identity", "CPU", "--json")
    assert (code, len(spoilt["differences"])) == (1, 1)


async def test_a_replay_that_is_killed_at_any_moment_breaks_nothing(
    places: Places, platform: AuditPlatform
) -> None:
    await platform.live(*(Life(f"k{number}", f"a{number}", 100.0 + number) for number in range(40)))
    await fill(places, platform)
    for within_s in (0.5, 0.9, 1.3, 1.7, 2.1, 2.5):
        process = await started(places.old, "replay", "--switch")
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), within_s)
        if process.returncode is None:
            process.kill()
        await process.communicate()
    code, output = await command(places.old, "rebuild")
    assert (code, output["is_equal"], output["entries"]) == (0, True, 42)


async def test_a_file_is_not_put_upon_another_log(places: Places, platform: AuditPlatform) -> None:
    await fill(places, platform)
    file = places.folder / "log.gz"
    await export_log(places.old, file, "archive")
    await platform.say("problem.other", example_event(ProblemPublished))
    async with logging_to(places.new.nats_url) as (log, _):
        await log.append(NewEvent(platform.log.since(0)[-1].envelope, None))
    with pytest.raises(Refused, match="1 events that are not the beginning"):
        await import_log(places.new, file, "operator:op")


async def test_an_import_that_was_broken_off_goes_on(
    places: Places, platform: AuditPlatform
) -> None:
    await fill(places, platform)
    file = places.folder / "log.gz"
    output = await export_log(places.old, file, "stream")
    first = [event.envelope for event in platform.log.since(0)[:7]]
    async with logging_to(places.new.nats_url) as (log, _):
        for envelope in first:
            await log.append(NewEvent(envelope, None))
    result = await import_log(places.new, file, "operator:op")
    assert (result["stored"], result["chain"]) == (output["events"] - 7, output["chain"])


async def test_a_file_that_was_touched_is_not_imported(
    platform: AuditPlatform, tmp_path: Path
) -> None:
    file = tmp_path / "log.gz"
    writer = LogFileWriter(file, len(platform.rows()), None)
    for row in platform.rows():
        writer.write(row)
    writer.close()
    text = gzip.decompress(file.read_bytes())
    file.write_bytes(gzip.compress(text.replace(b'"score_us":100.0', b'"score_us":1.0')))
    with pytest.raises(Refused, match="the chain is not the one that event"):
        await check_restorable(LogFileReader(file), MemoryLog())


async def test_blobs_that_are_not_what_they_are_named_by_are_refused(tmp_path: Path) -> None:
    blobs, path = MemoryBlobStore(), tmp_path / "log.gz.blobs.tar"
    blob = await blobs.put(b"the bytes")
    count, missing = await save_blobs(path, [blob.digest, "0" * 64], blobs)
    assert (count, missing) == (1, ["0" * 64])
    fresh = MemoryBlobStore()
    assert await load_blobs(path, fresh, 1) == 1
    assert await fresh.get(blob.digest) == b"the bytes"
    path.write_bytes(path.read_bytes().replace(b"the bytes", b"the bites"))
    with pytest.raises(Refused, match="is not the blob of its name"):
        await load_blobs(path, MemoryBlobStore(), 1)


async def test_a_command_that_cannot_be_done_says_why(places: Places) -> None:
    code, output = await command(places.old, "import", "/nowhere/log.gz")
    assert (code, output) == (
        2,
        "/nowhere/log.gz cannot be read: No such file or directory\n",
    )
    code, output = await command(places.old, "audit", "identity", "CPU", "--as-of", "noon")
    assert code == 2
    assert "instant" in output
