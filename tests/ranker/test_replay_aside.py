"""A rebuild reads a long log in a separate process; neither process outlives the other."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ranker.postgres import SCHEMA
from ranker.replay.runner import ASIDE_MIN, StreamLog
from shared.bus_keys.login import BusLogin
from shared.errors import Failed
from shared.event_log import Gap
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.nats.streams import ensure_streams
from shared.nats.subprocess_feed import SubprocessFeed
from shared.postgres import connect as postgres
from shared.servers.nats import NatsServer
from tests.contracts.samples import RUN, new_event, seqs, take_events
from tests.support.memory import MemoryLog
from tests.support.servers import drop_schema
from tests.support.waits import eventually

pytestmark = [pytest.mark.server, pytest.mark.long]
BATCH = 1000
ENOUGH = ASIDE_MIN + BATCH
# An event of ours has more.


async def write(login: BusLogin, count: int) -> None:
    nc = await connect(login, "test")
    await ensure_streams(nc)
    for first in range(0, count, BATCH):
        await NatsLog(nc).append_all(
            [new_event(RUN, first), *(new_event(RUN, None) for _ in range(BATCH - 1))]
        )
    await nc.close()


@pytest.fixture(scope="module")
def login(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BusLogin]:
    """A server with a log long enough for a separate reader."""
    server = NatsServer(tmp_path_factory.mktemp("long-log"))
    try:
        server.start()
        asyncio.run(write(server.login(), ENOUGH))
        yield server.login()
    finally:
        server.stop()


@pytest.fixture
async def feed(login: BusLogin) -> AsyncIterator[SubprocessFeed]:
    feed = SubprocessFeed(login, "test", 2)
    yield feed
    await feed.close()


def children(pid: int) -> list[int]:
    """The live child processes of a process."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def readers(pid: int) -> list[int]:
    """The child processes that read for a process."""
    command = "shared.nats.subprocess_feed"
    return [item for item in children(pid) if command in Path(f"/proc/{item}/cmdline").read_text()]


def is_gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists() or Path(f"/proc/{pid}/cmdline").read_text() == ""


async def test_it_hands_over_what_the_log_has_in_order(
    login: BusLogin, feed: SubprocessFeed
) -> None:
    events_ = await take_events(feed, ENOUGH - 2)
    assert seqs(events_) == list(range(3, ENOUGH + 1))
    assert feed.behind == 0
    (reader,) = readers(os.getpid())
    await feed.close()
    assert is_gone(reader)
    nc = await connect(login, "test")
    assert events_[-BATCH:] == await NatsLog(nc).history(RUN, ENOUGH - BATCH)
    await nc.close()


async def test_no_more_waits_here_than_may_wait(login: BusLogin) -> None:
    feed = SubprocessFeed(login, "test", 0, waiting_bytes_max=10_000)
    events_ = seqs(await feed.take(most=1))
    while len(events_) < ENOUGH:
        # One chunk of 64 KiB may come before it is told to wait.
        assert len(feed._reader._buffer) < 10_000 + 65_536  # type: ignore[attr-defined]
        events_ += seqs(await asyncio.wait_for(feed.take(most=100), 30))
    assert events_ == list(range(1, ENOUGH + 1))
    await feed.close()


async def test_a_gap_is_told_as_the_log_tells_it(login: BusLogin) -> None:
    feed = SubprocessFeed(login, "test", ENOUGH + 1)
    with pytest.raises(Gap, match=f"ends at {ENOUGH}, but {ENOUGH + 1} was read before"):
        await feed.take()
    await feed.close()


async def test_a_killed_reader_fails_whoever_waits_for_it(feed: SubprocessFeed) -> None:
    await take_events(feed, ENOUGH - 2)
    os.kill(readers(os.getpid())[0], signal.SIGKILL)
    with pytest.raises(Failed, match=f"was killed by signal 9 after event {ENOUGH}: run it again"):
        await asyncio.wait_for(feed.take(), 30)


async def test_a_short_rest_is_read_here(login: BusLogin) -> None:
    log = MemoryLog()
    source = StreamLog(log, lambda after: SubprocessFeed(login, "test", after), aside_min=2)
    await log.append(new_event(RUN, 0))
    async with source.begun() as begun:
        assert not isinstance(begun.follow(0), SubprocessFeed)
        await log.append(new_event(RUN, 1))
        assert await begun.last() == 2
        assert isinstance(begun.follow(0), SubprocessFeed)
        assert not isinstance(begun.follow(1), SubprocessFeed)
    assert readers(os.getpid()) == []


async def test_what_was_begun_and_never_wanted_is_ended(login: BusLogin) -> None:
    log = MemoryLog()
    await log.append(new_event(RUN, 0))
    source = StreamLog(log, lambda after: SubprocessFeed(login, "test", after), aside_min=1)
    async with source.begun():
        assert await eventually(lambda: readers(os.getpid()))
    assert readers(os.getpid()) == []


@contextmanager
def rebuilding(login: BusLogin, dsn: str) -> Iterator["subprocess.Popen[str]"]:
    """Run the command; at the end kill it and a reader that the test has stopped."""
    variables = {"NATS_URL": login.url, "NATS_CREDENTIALS": login.credentials}
    variables |= {"POSTGRES_DSN": dsn, "LISTEN": "127.0.0.1:1"}
    variables |= {"OPS_LISTEN": variables["LISTEN"], "READER_KEY": "k" * 16}
    environ = os.environ | {f"WARPBOARD_RANKER_{key}": value for key, value in variables.items()}
    command = [sys.executable, "-P", "-m", "ranker", "rebuild"]
    process = subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, text=True)
    with process:
        try:
            yield process
        finally:
            for reader in readers(process.pid):
                os.kill(reader, signal.SIGKILL)
            process.kill()


async def reading(process: "subprocess.Popen[str]", dsn: str) -> int:
    """The reader, stopped as soon as it exists, so that the rebuild stays in progress."""
    (reader,) = await eventually(lambda: readers(process.pid))
    os.kill(reader, signal.SIGSTOP)
    await eventually(lambda: schemas(dsn))
    return int(reader)


async def schemas(dsn: str) -> list[str]:
    find = b"select nspname from pg_namespace where nspname like 'rm_%' order by 1"
    async with await postgres(dsn) as connection:
        return [name for (name,) in await (await connection.execute(find)).fetchall()]


@pytest.fixture
def bare_dsn(postgres_dsn: str) -> str:
    """A database without live read models, so that leftovers of a rebuild are visible."""
    drop_schema(postgres_dsn, SCHEMA)
    return postgres_dsn


async def test_a_rebuild_whose_reader_is_killed_says_so_and_leaves_nothing(
    login: BusLogin, bare_dsn: str
) -> None:
    with rebuilding(login, bare_dsn) as process:
        reader = await reading(process, bare_dsn)
        assert await schemas(bare_dsn) == [f"{SCHEMA}_fresh"]
        os.kill(reader, signal.SIGKILL)
        _, errors = await asyncio.to_thread(process.communicate, timeout=60)
    assert process.returncode == 3
    assert errors.startswith("the process that reads the log was killed by signal 9 after event ")
    assert errors.count("\n") == 1
    assert (await schemas(bare_dsn), is_gone(reader)) == ([], True)


async def test_ctrl_c_ends_a_rebuild_with_its_reader_and_its_tables(
    login: BusLogin, bare_dsn: str
) -> None:
    with rebuilding(login, bare_dsn) as process:
        reader = await reading(process, bare_dsn)
        process.send_signal(signal.SIGINT)
        _, errors = await asyncio.to_thread(process.communicate, timeout=60)
    assert (process.returncode, errors) == (130, "interrupted\n")
    assert (await schemas(bare_dsn), is_gone(reader)) == ([], True)


async def test_a_reader_does_not_outlive_a_killed_rebuild(login: BusLogin, bare_dsn: str) -> None:
    with rebuilding(login, bare_dsn) as process:
        reader = await reading(process, bare_dsn)
        process.kill()
        os.kill(reader, signal.SIGCONT)
        await eventually(lambda: is_gone(reader))


async def test_a_rebuild_that_nobody_disturbs_folds_all_of_it(
    login: BusLogin, bare_dsn: str
) -> None:
    with rebuilding(login, bare_dsn) as process:
        (reader,) = await eventually(lambda: readers(process.pid))
        assert await asyncio.to_thread(process.wait, 60) == 0
    assert (await schemas(bare_dsn), is_gone(reader)) == ([], True)
