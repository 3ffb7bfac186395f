"""The local platform starts in order, brings back what dies and leaves nothing behind.

Run as a program, this file is `up` with stand-ins for the services:
`test_processes.py up FOLDER SERVICES`.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import pytest

from shared.errors import Failed, Refused
from shared.servers import nats, postgresql
from shared.servers import process as processes
from tests.support.waits import eventually
from warpboard.processes import child
from warpboard.processes.platform import Platform, supervise
from warpboard.processes.services import PlatformConfig, Service, describe, down

pytestmark = [pytest.mark.platform, pytest.mark.long, pytest.mark.server]

SITE = "healthz"
GOOD = "import http.server as h; h.test(h.SimpleHTTPRequestHandler, port={port}, bind='127.0.0.1')"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + GOOD
CRASHING = "raise SystemExit('no such table: {port}')"
SILENT = "import time; time.sleep(60)"
STAND_INS = {"good": GOOD, "stubborn": STUBBORN, "crashing": CRASHING, "silent": SILENT}


def stand_ins(*kinds: str, stop_s: float = 5.0) -> Callable[[PlatformConfig], Sequence[Service]]:
    """A table of services that are small programs of these kinds."""

    def table(place: PlatformConfig) -> Sequence[Service]:
        (place.folder / SITE).touch()
        names = ("ranker", "ingest", "scheduler")[: len(kinds)]
        return [
            _stand_in(place, name, STAND_INS[kind])._replace(stop_s=stop_s)
            for name, kind in zip(names, kinds, strict=True)
        ]

    return table


def _stand_in(place: PlatformConfig, name: str, program: str) -> Service:
    port = place.ports[f"{name}_ops"]
    enter = f"import os; os.chdir({str(place.folder)!r}); "
    command = (sys.executable, "-S", "-c", enter + program.format(port=port))
    return Service(name, command, {}, port, f"http://127.0.0.1:{port}")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that has its cluster already, so that a start is quick."""
    for binaries in (nats.find_binary, postgresql.find_binaries):
        try:
            binaries()
        except Failed as failed:
            pytest.skip(str(failed))
    return tmp_path_factory.mktemp("warpboard")


@pytest.fixture
def folder(prepared: Path) -> Iterator[Path]:
    yield prepared
    assert not in_use(prepared)


def in_use(folder: Path) -> list[Path]:
    """What still runs, by the locks that each process of a platform inherits."""
    folders = (folder, folder / "nats", folder / "postgres")
    return [path for path in folders if processes.is_folder_locked(path)]


class Up:
    """This file as `up`, in a process of its own."""

    def __init__(self, folder: Path, *kinds: str) -> None:
        self.folder = folder
        self._all_up = ["up"] * len(("nats", "postgres", *kinds))
        command = [sys.executable, "-m", "tests.cli.test_processes", "up", str(folder), *kinds]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )

    async def ready(self) -> None:
        await eventually(lambda: self._states() == self._all_up)

    def _states(self) -> list[str]:
        return [row.state for row in describe(self.folder)]

    def end(self) -> tuple[int, str]:
        """The exit code, and what it said on stderr."""
        errors = self.process.communicate(timeout=30)[1]
        return self.process.returncode, errors


class Start:
    """Starts this file as `up`."""

    def __init__(self) -> None:
        self.ups: list[Up] = []

    def __call__(self, folder: Path, *kinds: str) -> Up:
        self.ups.append(Up(folder, *kinds))
        return self.ups[-1]


@pytest.fixture
def start() -> Iterator[Start]:
    start = Start()
    yield start
    for up in start.ups:
        with up.process:
            up.process.kill()


async def test_all_are_up_and_all_are_stopped(folder: Path) -> None:
    platform = Platform(folder, dict(os.environ), table=stand_ins("good", "good"))
    rows = []

    async def look(running: Platform) -> None:
        rows.extend(describe(folder))
        assert [tuple(row) for row in rows] == [tuple(row) for row in running.rows]
        assert await asyncio.to_thread(answer, rows[-1].address) == 200
        with pytest.raises(Refused) as refused:
            await Platform(folder, {}).start()
        assert refused.value.reason == (
            f"a platform runs in {folder} already: {running.url}; "
            "`warpboard status` shows it, `warpboard down` stops it"
        )
        assert running.rows == describe(folder)

    assert await supervise(platform, look) is None
    assert [row.name for row in rows] == ["nats-server", "Postgres", "ranker", "ingest"]
    assert {row.state for row in rows} == {"up"}
    assert {(row.state, row.pid) for row in describe(folder)} == {("stopped", None)}
    assert not in_use(folder)
    check_state(folder, platform.url)
    await check_second_start(folder, platform.url)


def check_state(folder: Path, url: str) -> None:
    """Check that the file that `status` reads has the URL, and no secret of the platform."""
    state = (folder / "state.json").read_text()
    assert json.loads(state)["url"] == url
    secrets = ("*/password*", "keys/seeds/*", "keys/credentials/*", "operator_token", "reader_key")
    for pattern in secrets:
        files = list(folder.glob(pattern))
        assert files, pattern
        lines = {line for file in files for line in file.read_text().split()}
        assert not any(line in state for line in lines if len(line) > 16), pattern


async def check_second_start(folder: Path, url: str) -> None:
    """Check that the URL is kept, and that a failure of the work stops a stubborn service, too."""

    async def fail(running: Platform) -> None:
        assert running.url == url
        raise RuntimeError("the demo failed")

    platform = Platform(folder, dict(os.environ), table=stand_ins("stubborn", stop_s=0.1))
    with pytest.raises(RuntimeError, match="the demo failed"):
        await supervise(platform, fail)
    assert not in_use(folder)


def answer(address: str) -> int:
    with closing(HTTPConnection(address.removeprefix("http://"), timeout=30)) as connection:
        connection.request("GET", f"/{SITE}")
        return connection.getresponse().status


async def test_whatever_is_killed_comes_back_at_its_address(folder: Path) -> None:
    async def kill_all(platform: Platform) -> None:
        before = platform.rows
        for row in before:
            assert row.pid is not None
            os.kill(row.pid, signal.SIGKILL)
        back = [("up", 1, row.address) for row in before]
        await eventually(
            lambda: [(row.state, row.restarts, row.address) for row in platform.rows] == back,
            within_s=20,
        )
        assert [row.restarts for row in describe(folder)] == [1, 1, 1]

    await supervise(Platform(folder, dict(os.environ), table=stand_ins("good")), kill_all)


@pytest.mark.parametrize("name", ["nats-server", "Postgres", "ranker"])
async def test_whatever_no_longer_answers_is_started_again(
    folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "PROBE_EVERY_S", 0.2)

    async def freeze(platform: Platform) -> None:
        row = next(row for row in platform.rows if row.name == name)
        assert row.pid is not None
        os.kill(row.pid, signal.SIGSTOP)
        back = [("up", 1 if row.name == name else 0) for row in platform.rows]
        await eventually(
            lambda: [(row.state, row.restarts) for row in platform.rows] == back, within_s=30
        )

    await supervise(Platform(folder, dict(os.environ), table=stand_ins("good")), freeze)


async def test_a_platform_that_stood_still_restarts_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a laptop that slept: no probe is answered while nobody asks."""
    monkeypatch.setattr(child, "PROBE_EVERY_S", 0.2)
    asked = []
    answers = child.ServiceProcess.answers

    def count_asked(service: child.ServiceProcess, within_s: float) -> bool:
        asked.append(service.name)
        return answers(service, within_s)

    monkeypatch.setattr(child.ServiceProcess, "answers", count_asked)

    async def stand_still(platform: Platform) -> None:
        pids = [row.pid for row in platform.rows]
        for pid in filter(None, pids):
            os.kill(pid, signal.SIGSTOP)
        # The platform itself stands still, too.
        time.sleep(2 * child.UNANSWERED_MAX * child.PROBE_EVERY_S)  # noqa: ASYNC251
        for pid in filter(None, pids):
            os.kill(pid, signal.SIGCONT)
        asked.clear()
        await eventually(lambda: len(asked) > 2 * child.UNANSWERED_MAX, within_s=30)
        assert [(row.pid, row.restarts) for row in platform.rows] == [(pid, 0) for pid in pids]

    await supervise(Platform(folder, dict(os.environ), table=stand_ins("good")), stand_still)


async def test_the_end_of_a_log_tells_why_a_start_failed(folder: Path) -> None:
    platform = Platform(folder, dict(os.environ), table=stand_ins("good", "crashing"))
    with pytest.raises(Failed, match=r"ingest did not start: it ended\b[^$]*no such table"):
        await supervise(platform, lambda _: asyncio.sleep(60))


async def test_a_start_that_takes_too_long_says_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "READY_S_MAX", 0.5)
    platform = Platform(folder, dict(os.environ), table=stand_ins("silent"))
    with pytest.raises(Failed, match="did not start: it runs, and does not answer within"):
        await supervise(platform, lambda _: asyncio.sleep(60))


async def test_a_killed_platform_leaves_no_process_and_down_stops_the_next(
    start: Start, folder: Path
) -> None:
    up = start(folder, "good", "good")
    await up.ready()
    up.process.kill()
    up.end()
    await eventually(lambda: not in_use(folder))
    again = start(folder, "good")
    await again.ready()
    assert await asyncio.to_thread(down, folder)
    assert not in_use(folder)
    assert again.end()[0] == 128 + signal.SIGTERM
    assert not down(folder)


PHASES: dict[str, Callable[[Path], bool]] = {
    "locked": lambda folder: processes.lock_holder(folder) is not None,
    "nats": lambda folder: (folder / "nats" / "nats.conf").exists(),
    "initdb": lambda folder: (folder / "postgres" / "data.new" / "base").exists(),
    "postgres": lambda folder: (folder / "postgres" / "data" / "postmaster.pid").exists(),
    "services": lambda folder: (folder / "logs" / "ranker.log").exists(),
}
# They come after the creation of a cluster, which takes long.
LATE_PHASES = ("postgres", "services")


@pytest.mark.parametrize("phase", PHASES)
async def test_ctrl_c_in_any_phase_of_the_start_leaves_nothing(
    start: Start, phase: str, prepared: Path, tmp_path: Path
) -> None:
    folder = prepared if phase in LATE_PHASES else tmp_path
    (folder / "logs" / "ranker.log").unlink(missing_ok=True)
    up = start(folder, "good")
    await eventually(lambda: PHASES[phase](folder))
    up.process.send_signal(signal.SIGINT)
    code, errors = up.end()
    assert (code, errors) == (128 + signal.SIGINT, "")
    assert not in_use(folder)


async def test_a_second_ctrl_c_kills_at_once(start: Start, folder: Path) -> None:
    up = start(folder, "stubborn")
    await up.ready()
    up.process.send_signal(signal.SIGINT)
    await eventually(lambda: "stopping" in {row.state for row in describe(folder)})
    up.process.send_signal(signal.SIGINT)
    assert up.end() == (128 + signal.SIGINT, "")
    await eventually(lambda: not in_use(folder))


if __name__ == "__main__":
    _, _, place_, *kinds_ = sys.argv
    up_ = Platform(Path(place_), dict(os.environ), table=stand_ins(*kinds_, stop_s=60))
    number_ = asyncio.run(supervise(up_, lambda _: asyncio.sleep(60)))
    sys.exit(128 + number_ if number_ else 0)
