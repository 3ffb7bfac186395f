"""Embedded servers: exclusive in their folder, gone when we are, back after any kill.

Run as a program, this file starts a server and is then killed: `test_servers.py KIND FOLDER`.
"""

import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.errors import Failed
from shared.postgres import connect
from shared.servers import process
from shared.servers.nats import NatsServer
from shared.servers.postgresql import Postgres
from tests.support.servers import skip_without_nats, skip_without_postgres
from tests.support.waits import eventually

pytestmark = [pytest.mark.long, pytest.mark.server]

KINDS = {kind.__name__: kind for kind in (NatsServer, Postgres)}


@pytest.fixture(autouse=True, scope="module")
def binaries() -> None:
    skip_without_nats()
    skip_without_postgres()


@pytest.fixture
def nats_server(tmp_path: Path) -> Iterator[NatsServer]:
    server = NatsServer(tmp_path / "nats")
    yield server
    server.stop()


@pytest.fixture(scope="module", params=["closed", "open"])
def home(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """A folder where a cluster is created once: one only we can enter, and one open to all."""
    with tempfile.TemporaryDirectory() as open_to_all:
        Path(open_to_all).chmod(0o755)
        closed = tmp_path_factory.mktemp("closed")
        yield (Path(open_to_all) if request.param == "open" else closed) / "postgres"


@pytest.fixture
def postgres(home: Path) -> Iterator[Postgres]:
    """A Postgres in each of the two."""
    server = Postgres(home)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders in which servers of each kind were set up."""
    return tmp_path_factory.mktemp("prepared")


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def folder(prepared: Path, kind: str) -> Path:
    """The folder of such a server."""
    return prepared / kind


def started(kind: str, folder: Path) -> "subprocess.Popen[bytes]":
    """Run a process of its own that starts a server, and prints its address once it is ready."""
    command = [sys.executable, "-m", "tests.shared.test_servers", kind, str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2])


def killed(parent: "subprocess.Popen[bytes]") -> None:
    parent.kill()
    parent.communicate(timeout=30)


async def answer(dsn: str) -> str:
    async with await connect(dsn) as connection:
        row = await (await connection.execute(b"select current_user")).fetchone()
    assert row is not None
    return str(row[0])


async def test_postgres_answers_on_its_socket_alone(postgres: Postgres) -> None:
    assert await answer(postgres.start()) == "postgres"
    assert postgres.process is not None
    tables = [Path(f"/proc/{postgres.process.pid}/net/{table}") for table in ("tcp", "tcp6")]
    assert not [table for table in tables if ":1538 " in table.read_text()]  # 5432


async def test_postgres_lets_no_stranger_in(postgres: Postgres) -> None:
    dsn = postgres.start()
    with pytest.raises(Failed, match="password authentication failed"):
        await connect(re.sub(r"postgres:[^@]+@", "postgres:a-guess@", dsn))
    for closed in ("socket", "data"):
        assert stat.S_IMODE((postgres.folder / closed).stat().st_mode) == 0o700
    assert stat.S_IMODE((postgres.folder / "password").stat().st_mode) == 0o600


async def test_postgres_comes_back_on_its_socket_after_a_kill(postgres: Postgres) -> None:
    dsn = postgres.start()
    postgres.kill()
    assert not postgres.is_alive()
    assert postgres.start() == dsn
    assert await answer(dsn) == "postgres"


async def test_postgres_stops_so_that_nothing_is_to_be_recovered(postgres: Postgres) -> None:
    dsn = postgres.start()
    async with await connect(dsn):  # A client that stays does not hold it up.
        postgres.stop()
    before = len(postgres.log.read_text())
    postgres.start()
    assert "database system was shut down at" in postgres.log.read_text()[before:]


def test_a_long_path_has_its_socket_in_a_short_folder(tmp_path: Path) -> None:
    server = Postgres(tmp_path / ("long" * 20))
    dsn = server.start()
    home = Path((server.folder / "socket.path").read_text())
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert (home / ".s.PGSQL.5432").is_socket()
    server.kill()
    assert server.start() == dsn
    server.stop()
    assert not home.exists()


def test_nats_keeps_its_port_over_restarts(nats_server: NatsServer) -> None:
    url = nats_server.start()
    assert re.fullmatch(r"nats://127\.0\.0\.1:\d+", url)
    nats_server.kill()
    assert nats_server.start() == url
    nats_server.stop()
    assert nats_server.start() == url


def test_nats_survives_power_cuts_and_lets_no_stranger_read(nats_server: NatsServer) -> None:
    nats_server.start()
    config = nats_server.folder / "nats.conf"
    assert '"sync_interval": "always"' in config.read_text()
    assert stat.S_IMODE(config.stat().st_mode) == 0o600
    assert stat.S_IMODE(nats_server.folder.stat().st_mode) == 0o700


def test_a_second_server_on_one_folder_is_refused(kind: str, folder: Path) -> None:
    first, second = KINDS[kind](folder), KINDS[kind](folder)
    second.patience_s = 0.1
    first.start()
    assert first.process is not None
    with pytest.raises(process.FolderInUse) as refused:
        second.start()
    assert refused.value.reason == f"{folder} is in use by process {first.process.pid}"
    first.stop()
    assert second.start()
    second.stop()


async def test_a_server_does_not_outlive_a_killed_parent(kind: str, folder: Path) -> None:
    parent = started(kind, folder)
    assert parent.stdout is not None
    assert parent.stdout.readline()
    killed(parent)
    # Each process of a server has the lock, so that a free lock says that all are gone.
    await eventually(lambda: not process.is_folder_locked(folder))
    server = KINDS[kind](folder)
    assert server.start()
    server.stop()


def test_a_start_waits_for_an_orphan_that_is_ending(kind: str, folder: Path) -> None:
    parent = started(kind, folder)
    assert parent.stdout is not None
    assert parent.stdout.readline()
    killed(parent)
    server = KINDS[kind](folder)
    assert server.start()
    server.stop()


async def test_a_killed_setup_leaves_no_half_cluster(tmp_path: Path) -> None:
    parent = started("Postgres", tmp_path)
    await eventually((tmp_path / "data.new" / "base").exists)
    killed(parent)
    await eventually(lambda: not process.is_folder_locked(tmp_path))
    assert not (tmp_path / "data").exists()
    server = Postgres(tmp_path)
    assert await answer(server.start()) == "postgres"
    server.stop()


async def test_a_start_that_is_given_up_leaves_no_process(tmp_path: Path) -> None:
    starting = Postgres(tmp_path).starting()
    is_created = (tmp_path / "data.new" / "base").exists
    await eventually(lambda: next(starting) or is_created())
    starting.close()
    await eventually(lambda: not process.is_folder_locked(tmp_path))


def test_a_number_of_a_dead_process_does_not_stop_postgres(postgres: Postgres) -> None:
    postgres.start()
    postgres.kill()
    stale = postgres.data / "postmaster.pid"
    lines = stale.read_text().splitlines()
    stale.write_text("\n".join([str(os.getpid()), *lines[1:]]))
    assert postgres.start()


def test_a_failed_start_shows_the_end_of_the_log(tmp_path: Path, nats_server: NatsServer) -> None:
    nats_server.start()
    why = r"nats-server did not start: it ended\n[^$]*address already in use"
    with pytest.raises(Failed, match=why):
        NatsServer(tmp_path / "other", port=nats_server.port).start()


def test_a_service_that_is_refused_a_second_time_says_why_in_one_sentence(tmp_path: Path) -> None:
    log = tmp_path / "ranker.log"
    log.write_text('{"level": "info", "message": "stopping on SIGTERM"}\n' * 100)
    command = ("bash", "-c", f"ulimit -n 256; exec {sys.executable} -P -m ranker")
    listen = {
        "WARPBOARD_RANKER_LISTEN": "127.0.0.1:1",
        "WARPBOARD_RANKER_OPS_LISTEN": "127.0.0.1:2",
    }
    urls = {"WARPBOARD_RANKER_NATS_URL": "nats://n", "WARPBOARD_RANKER_POSTGRES_DSN": "dbname=p"}
    environ = os.environ | listen | urls | {"WARPBOARD_RANKER_READER_KEY": "k" * 16}
    launch = process.Launch(command, log, environ=environ)
    assert launch.start().wait(60) == 2
    service = launch.start()
    assert service.wait(60) == 2
    failed = process.startup_failure("ranker", service, log, 60)
    assert re.fullmatch(
        "ranker did not start: it ended: this process may open 256 files at once, but needs at "
        r"least 512: raise the hard limit \([^\n]*\)",
        str(failed),
    )


def test_a_leashed_program_is_not_started_for_a_stranger(tmp_path: Path) -> None:
    leash = Path(process.__file__).with_name("parent_death.py")
    command = [sys.executable, "-I", "-S", str(leash), "15", "1", "-", "touch", str(tmp_path / "x")]
    ended = subprocess.run(command, capture_output=True, timeout=30, check=False)
    assert b"process 1 is gone" in ended.stderr
    assert not (tmp_path / "x").exists()


def test_a_stubborn_process_is_killed_when_its_time_is_over() -> None:
    command = [sys.executable, "-c", "import signal; signal.pause()"]
    stubborn = subprocess.Popen(command, start_new_session=True)
    process.run_steps(process.stop_steps(stubborn, signal.SIGCONT, 0.05))
    assert stubborn.returncode == -signal.SIGKILL


if __name__ == "__main__":
    print(KINDS[sys.argv[1]](Path(sys.argv[2])).start(), flush=True)  # noqa: T201
    signal.pause()
