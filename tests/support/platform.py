"""A whole platform in a folder, as `warpboard up` runs it, and what a test may do to it."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import httpx
import msgspec

from ranker.audit.command import audit_live
from ranker.replay.runner import replay_projection
from ranker.settings import Settings
from shared.bus_keys.login import BusLogin
from shared.bus_keys.permissions import MAINTENANCE
from shared.servers.postgresql import Postgres
from shared.settings import read_settings
from tests.support.people import add_problem
from tests.support.waits import until

Value = TypeVar("Value")
ROOT = Path(__file__).parent.parent.parent
# As long as `up` waits for one service, and then some.
UP_S_MAX = 180
# Each look is a request to services that are still starting.
UP_STEP_S = 0.25
DOWN_S_MAX = 60
LEFT_S_MAX = 30.0
ASIDE_S_MAX = 120
# Faster than in earnest, so that a lost agent is noticed within seconds.
QUICK = {
    "WARPBOARD_GPU_AGENT_HEARTBEAT_S": "0.5",
    "WARPBOARD_SCHEDULER_SILENT_S_MAX": "5",
    "WARPBOARD_SCHEDULER_TICK_S": "0.1",
}
# Duels, confirmations and noisy runs that are timed again would keep the agents of most tests busy;
# who wants them says so.
NO_PODIUM_JOBS = {
    "WARPBOARD_RANKER_DUELS": "false",
    "WARPBOARD_RANKER_CONFIRMATIONS": "false",
    "WARPBOARD_RANKER_RETIMES": "false",
}
# The tests themselves keep the machine busy.
TIMED_AT_ONCE = {"WARPBOARD_GPU_AGENT_QUIET_WAIT_S": "0"}
# Agents as in earnest, where none falls silent: on a busy machine each one does for a while.
PATIENT = {"WARPBOARD_SCHEDULER_TICK_S": "0.1"}
# Baselines that give their authors a moment alone.
PROMPT_BASELINES = {"WARPBOARD_SCHEDULER_BASELINE_PAUSE_S": "1"}


class Running:
    """`warpboard up` as a child process; `folder` outlives it."""

    module = "warpboard"

    def __init__(self, folder: Path, settings: dict[str, str] = QUICK, *options: str) -> None:
        self.folder, self.options = folder, options
        self.settings = settings
        self.process: subprocess.Popen[bytes] | None = None

    def command(self, module: str) -> tuple[str, ...]:
        """The command of a program beside it."""
        return sys.executable, "-m", module

    def launch(self) -> "subprocess.Popen[bytes]":
        """Start `up`, without waiting for anything."""
        command = [sys.executable, "-m", self.module, "up", "--folder", str(self.folder)]
        command += self.options
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        with (self.folder.parent / f"{self.folder.name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                command,
                env=os.environ | NO_PODIUM_JOBS | TIMED_AT_ONCE | self.settings,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return self.process

    def up(self) -> "Running":
        """Start, and return when an agent is alive."""
        process = self.launch()
        until = time.monotonic() + UP_S_MAX
        with httpx.Client(timeout=5) as http:
            while not self._has_agent(http):
                log = self.folder.parent / f"{self.folder.name}.log"
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < until, log.read_text()
                time.sleep(UP_STEP_S)
        return self

    def _has_agent(self, http: httpx.Client) -> bool:
        try:
            items = http.get(f"{self.url}/v1/agents").json()["items"]
        except (OSError, KeyError, ValueError, httpx.HTTPError):
            return False
        return any(item["is_free"] for item in items)

    @property
    def state(self) -> dict[str, Any]:
        """What `up` says of itself."""
        state: dict[str, Any] = json.loads((self.folder / "state.json").read_text())
        return state

    @property
    def url(self) -> str:
        """The public address."""
        return str(self.state["url"])

    def pid(self, name: str) -> int | None:
        """The process of a service or server, None while it has none."""
        rows = {row["name"]: row["pid"] for row in self.state["processes"]}
        pid: int | None = rows[name]
        return pid

    @property
    def postgres(self) -> Postgres:
        """Its Postgres, with the DSN of the superuser and of each role."""
        return Postgres(self.folder / "postgres")

    def environ(self, name: str) -> dict[str, str]:
        """What a service was told at its start."""
        raw = Path(f"/proc/{self.pid(name)}/environ").read_text()
        return dict(line.split("=", 1) for line in raw.split("\0") if "=" in line)

    def bus_login(self, user: str = MAINTENANCE) -> BusLogin:
        """How a user logs in to the bus; the default may do everything that services may."""
        url = self.environ("scheduler")["WARPBOARD_SCHEDULER_NATS_URL"]
        return BusLogin(url, str(self.folder / "keys" / "credentials" / f"{user}.creds"))

    @property
    def operator(self) -> dict[str, str]:
        """The header of the operators' own token."""
        return {"Authorization": f"Bearer {(self.folder / 'operator_token').read_text().strip()}"}

    def admin(self, path: str, **body: str) -> None:
        """Send a POST request to a path below `/v1/admin/` as the operator."""
        url = f"{self.url}/v1/admin/{path}"
        json_body = {"reason": "a test"} | body
        answer = httpx.post(url, json=json_body, headers=self.operator, timeout=30)
        assert answer.is_success, answer.text

    def token(self, name: str, *scopes: str) -> dict[str, str]:
        """The header of a fresh token of a participant, who is registered if they are new."""
        with httpx.Client(base_url=f"{self.url}/v1/admin/", headers=self.operator) as http:
            answer = http.post("participants", json={"name": name, "reason": "a test"})
            assert answer.status_code in (201, 409), answer.text
            body = {"participant": name, "name": "t", "scopes": scopes, "reason": "a test"}
            answer = http.post("tokens", json=body)
            assert answer.is_success, answer.text
            return {"Authorization": f"Bearer {answer.json()['token']}"}

    def rebuild(self) -> dict[str, Any]:
        """What `ranker rebuild` finds: the leaderboards folded anew against the live ones."""
        return self._replay("stream")

    def replay_archive(self) -> dict[str, Any]:
        """How the leaderboards folded again from the archive compare with the live ones."""
        return self._replay("archive")

    def audit(self, problem: str, gpu: str) -> dict[str, Any]:
        """What an audit of a leaderboard finds."""
        names = ("version", "contest", "round", "rating", "as_of", "as_of_seq")
        options = Namespace(key=[], problem=problem, gpu=gpu, **dict.fromkeys(names))
        report = _run_aside(audit_live(self._ranker_settings(), options, []))
        found: dict[str, Any] = msgspec.to_builtins(report)
        return found

    def _replay(self, source: str) -> dict[str, Any]:
        options = Namespace(projection="ranker", source=source, file=None, switch=False)
        return _run_aside(replay_projection(self._ranker_settings(), options))

    def _ranker_settings(self) -> Settings:
        return read_settings(Settings, "WARPBOARD_RANKER", self.environ("ranker"))

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Ask `up` to end, and wait for it; its exit code."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(DOWN_S_MAX)

    def end(self) -> None:
        """Stop it, if it runs."""
        if self.process is not None and self.process.poll() is None:
            self.stop()

    def left(self) -> list[str]:
        """Every process that still has to do with this folder."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                environ = (process / "environ").read_bytes().decode(errors="replace")
                where = str((process / "cwd").readlink())
            except OSError:
                continue
            folder = str(self.folder)
            is_ours = folder in command or folder in environ or where.startswith(folder)
            if is_ours and process.name != str(os.getpid()):
                found.append(f"{process.name} {command}")
        return found


def _run_aside(coroutine: Coroutine[Any, Any, Value]) -> Value:
    """Run what a command of the ranker runs, whether or not an event loop runs here.

    A process of its own would import the ranker once more, 1.5 s of processor time.
    """

    async def run_bounded() -> Value:
        async with asyncio.timeout(ASIDE_S_MAX):
            return await coroutine

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(run_bounded())).result()


def run_platform(running: Running) -> Iterator[Running]:
    """Start a platform with the problem identity, and leave no process of it behind."""
    try:
        running.up()
        add_problem(running.url, ROOT / "problems" / "identity")
        yield running
    finally:
        running.end()
    # The harness of a killed agent ends by itself, after its box.
    until(lambda: not running.left(), LEFT_S_MAX)


class StrictRunning(Running):
    """A platform that believes no names: who asks shows a token, or comes by the Discord edge."""

    module = "tests.support.strict"
