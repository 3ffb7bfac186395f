"""The drill: a log goes into a file and onto other servers, and everything is as it was."""

import asyncio
import gzip
import json
import os
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec import structs

from ranker.__main__ import SCHEMA
from ranker.archive.keeping import keep
from ranker.archive.postgres import PACKAGE, archive
from ranker.archive.postgres import SCHEMA as ARCHIVE
from ranker.commands.copying import export, import_
from ranker.commands.replaying import Unwatched
from ranker.domain.kept import Kept
from ranker.export.blobs import load, save
from ranker.export.file import Reader, Writer
from ranker.export.restoring import restore
from ranker.postgres import ReadModels
from ranker.service import News, project
from ranker.settings import Settings
from shared import subjects
from shared.errors import Refused
from shared.event_log import New
from shared.events import HARNESS_CODE, AgentRegistered, ProblemPublished, ProjectionSwitched
from shared.memory import MemoryBlobs, MemoryLog
from shared.nats.blobs import NatsBlobs
from shared.nats.connection import connect as connect_nats
from shared.nats.event_log import NatsLog
from shared.nats.streams import ensure
from shared.postgres import connect, migrate
from shared.settings import Listen
from shared.testing import example, postgres_database
from tests.ranker.audited import Town
from tests.support.lives import AGENT, Life, NoMetrics
from tests.support.servers import SharedNats

# asyncio lets go of the pipes of a process that was killed while somebody waited for it.
pytestmark = [
    pytest.mark.long,
    pytest.mark.server,
    pytest.mark.filterwarnings("ignore:.*PipeTransport:pytest.PytestUnraisableExceptionWarning"),
]
NOWHERE = Listen("127.0.0.1", 0)


@pytest.fixture
async def town(tmp_path: Path) -> Town:
    town = await Town(tmp_path).found()
    await town.live(Life("s1"))
    await town.seal()
    await town.live(Life("s2", account="grace", time_us=50.0))
    return town


@asynccontextmanager
async def logging_to(url: str) -> AsyncIterator[tuple[NatsLog, NatsBlobs]]:
    nc = await connect_nats(url, "test")
    try:
        await ensure(nc)
        yield NatsLog(nc), NatsBlobs(nc)
    finally:
        await nc.close()


async def rank(log: NatsLog, dsn: str) -> None:
    """What the service would have done by now."""
    migrate(dsn, "shared", "accounts")
    migrate(dsn, "ranker", SCHEMA)
    migrate(dsn, PACKAGE, ARCHIVE)
    last = await log.last()
    async with await connect(dsn, SCHEMA) as connection, archive(dsn) as kept:
        models = ReadModels(connection)
        async for _ in project(log, models, News(), NoMetrics(), until=last):
            pass
        await keep(log, kept, Unwatched(), until=last)


def environ(settings: Settings) -> dict[str, str]:
    """What the service is told at its start."""
    told = {
        "NATS_URL": settings.nats_url,
        "POSTGRES_DSN": settings.postgres_dsn,
        "LISTEN": "127.0.0.1:1",
        "OPS_LISTEN": "127.0.0.1:1",
        "READER_KEY": "k" * 16,
        "SEAL_KEY": str(settings.seal_key),
    }
    return os.environ | {f"WARPBOARD_RANKER_{key}": value for key, value in told.items()}


async def started(settings: Settings, *arguments: str) -> Process:
    """`python -m ranker` with these arguments."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ranker", *arguments),
        env=environ(settings),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def command(settings: Settings, *arguments: str) -> tuple[int, Any]:
    """The exit code of such a command, and what it said."""
    process = await started(settings, *arguments)
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    assert process.returncode is not None
    assert out or err
    return process.returncode, json.loads(out) if out else err.decode()


class Places(NamedTuple):
    """Two platforms: the one that is, and the one that takes its place."""

    old: Settings
    new: Settings
    folder: Path


@pytest.fixture
def places(shared_nats: SharedNats, postgres_server_dsn: str, tmp_path: Path) -> Iterator[Places]:
    """The seal's key goes along, as an operator's backup has it."""
    with (
        postgres_database(postgres_server_dsn) as one,
        postgres_database(postgres_server_dsn) as other,
    ):
        key = tmp_path / "seal.key"
        yield Places(
            Settings(shared_nats.fresh_url(), one, NOWHERE, NOWHERE, "k" * 16, seal_key=key),
            Settings(shared_nats.fresh_url(), other, NOWHERE, NOWHERE, "k" * 16, seal_key=key),
            tmp_path,
        )


async def fill(places: Places, town: Town) -> None:
    """Everything that happened, and what the service made of it."""
    async with logging_to(places.old.nats_url) as (log, _):
        for event in town.log.since(0):
            await log.append(New(event.envelope, None))
        await rank(log, places.old.postgres_dsn)


async def followed(log: NatsLog, count: int) -> list[tuple[int, bytes]]:
    """The first events of a log, each as it was stored."""
    feed, seen = log.follow(0), list[tuple[int, bytes]]()
    async with asyncio.timeout(30):
        while len(seen) < count:
            seen += [(one.seq, one.body) for one in await feed.take(count - len(seen))]
    await feed.close()
    return seen


async def test_a_log_moves_to_other_servers_and_all_is_as_it_was(
    places: Places, town: Town
) -> None:
    old, new, folder = places
    async with logging_to(old.nats_url) as (_, blobs):
        source = await blobs.put(b"x" * 100_000)
        code_of = await blobs.put(b"the harness code")
    offer = structs.replace(example(AgentRegistered), details={HARNESS_CODE: code_of.digest})
    await town.say(subjects.agent(AGENT), offer)
    await town.live(Life("s3", "linus", 75.0, artefact=source, harness_code=code_of.digest))
    await fill(places, town)
    code, said = await command(old, "audit", "identity", "CPU", "--json")
    assert (code, said["findings"], said["differences"]) == (0, [], [])
    file = folder / "log.gz"
    code, exported = await command(old, "export", str(file))
    assert (code, exported["events"], exported["blobs"]) == (0, len(town.log.since(0)), 2)

    code, imported = await command(new, "import", str(file))
    assert (code, imported["chain"]) == (0, exported["chain"])
    async with logging_to(new.nats_url) as (log, blobs):
        assert await blobs.get(source.digest) == b"x" * 100_000
        assert await blobs.get(code_of.digest) == b"the harness code"
        stored = [(one.seq, one.body) for one in town.log.since(0)]
        assert await followed(log, len(stored)) == stored
        await rank(log, new.postgres_dsn)
    code, again = await command(new, "audit", "identity", "CPU", "--json")
    assert (code, again["findings"], again["differences"]) == (0, [], [])
    assert again["rows"] == said["rows"]
    code, rebuilt = await command(new, "rebuild")
    assert (code, rebuilt["is_equal"], rebuilt["entries"]) == (0, True, 3)
    code, rebuilt = await command(new, "replay", "--projection", "archive", "--switch")
    assert (code, rebuilt["is_equal"], rebuilt["is_switched"]) == (0, True, True)
    async with logging_to(new.nats_url) as (log, _):
        (switched,) = await log.history("audit.projection")
        assert isinstance(switched.fact, ProjectionSwitched)
        assert (switched.fact.name, switched.fact.is_equal) == ("archive", True)
    code, offline = await command(new, "audit", "identity", "CPU", "--file", str(file), "--json")
    assert (code, offline["rows"]) == (0, said["rows"])
    assert (await command(new, "import", str(file)))[0] == 2
    async with await connect(new.postgres_dsn, SCHEMA) as connection:
        await connection.execute(b"update entry set score_us = 1 where account = 'ada'")
    code, spoilt = await command(new, "audit", "identity", "CPU", "--json")
    assert (code, len(spoilt["differences"])) == (1, 1)


async def test_a_replay_that_is_killed_at_any_moment_breaks_nothing(
    places: Places, town: Town
) -> None:
    await town.live(*(Life(f"k{number}", f"a{number}", 100.0 + number) for number in range(40)))
    await fill(places, town)
    for within_s in (0.5, 0.9, 1.3, 1.7, 2.1, 2.5):
        process = await started(places.old, "replay", "--switch")
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), within_s)
        if process.returncode is None:
            process.kill()
        await process.communicate()
    code, said = await command(places.old, "rebuild")
    assert (code, said["is_equal"], said["entries"]) == (0, True, 42)


async def test_a_file_is_not_put_upon_another_log(places: Places, town: Town) -> None:
    await fill(places, town)
    file = places.folder / "log.gz"
    await export(places.old, file, "archive")
    await town.say("problem.other", example(ProblemPublished))
    async with logging_to(places.new.nats_url) as (log, _):
        await log.append(New(town.log.since(0)[-1].envelope, None))
    with pytest.raises(Refused, match="1 events that are not the beginning"):
        await import_(places.new, file, "operator:op")


async def test_an_import_that_was_broken_off_goes_on(places: Places, town: Town) -> None:
    await fill(places, town)
    file = places.folder / "log.gz"
    said = await export(places.old, file, "stream")
    first = [event.envelope for event in town.log.since(0)[:7]]
    async with logging_to(places.new.nats_url) as (log, _):
        for envelope in first:
            await log.append(New(envelope, None))
    done = await import_(places.new, file, "operator:op")
    assert (done["stored"], done["chain"]) == (said["events"] - 7, said["chain"])


async def test_a_file_that_was_touched_is_not_imported(town: Town, tmp_path: Path) -> None:
    async def store(batch: Sequence[Kept], after: int) -> None:
        raise AssertionError(f"{len(batch)} events after {after} were stored")

    file = tmp_path / "log.gz"
    writer = Writer(file, len(town.rows()), None)
    for row in town.rows():
        writer.write(row)
    writer.close()
    text = gzip.decompress(file.read_bytes())
    file.write_bytes(gzip.compress(text.replace(b'"score_us":100.0', b'"score_us":1.0')))
    with pytest.raises(Refused, match="the chain is not the one that event"):
        await restore(Reader(file), MemoryLog(), store)


async def test_blobs_that_are_not_what_they_are_named_by_are_refused(tmp_path: Path) -> None:
    blobs, path = MemoryBlobs(), tmp_path / "log.gz.blobs.tar"
    kept = await blobs.put(b"the bytes")
    count, missing = await save(path, [kept.digest, "0" * 64], blobs)
    assert (count, missing) == (1, ["0" * 64])
    fresh = MemoryBlobs()
    assert await load(path, fresh) == 1
    assert await fresh.get(kept.digest) == b"the bytes"
    path.write_bytes(path.read_bytes().replace(b"the bytes", b"the bites"))
    with pytest.raises(Refused, match="is not the blob of its name"):
        await load(path, MemoryBlobs())


async def test_a_command_that_cannot_be_done_says_why(places: Places) -> None:
    code, said = await command(places.old, "import", "/nowhere/log.gz")
    assert (code, said) == (2, "there is no file /nowhere/log.gz\n")
    code, said = await command(places.old, "audit", "identity", "CPU", "--as-of", "noon")
    assert code == 2
    assert "instant" in said
