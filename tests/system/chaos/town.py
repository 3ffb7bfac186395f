"""The platform, a second scheduler and no-op agents beside it, and what is done to all of them."""

import asyncio
import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from shared.servers.process import Launch, run_steps, stop_steps
from tests.support.platform import ROOT, Running
from tests.support.waits import free_port
from tests.system.chaos.faults import fill, keep_from_writing
from tests.system.chaos.plan import Strike

RESTART_S = 0.5
DOWN_S_MAX = 20.0
# What each process of no-op agents is: which GPU type, and how many of them.
NOOPS = {"noop-0": ("H100", 5), "noop-1": ("T4", 3)}
TOOK_S = (0.05, 0.6)
SKEW_S = 7200.0
# So many of the sources are wrong to a no-op agent.
WRONG_SHARE = 0.15


@dataclass
class Extra:
    """A process that `warpboard up` does not know, brought back whenever it dies."""

    launch: Launch
    process: "subprocess.Popen[bytes] | None" = None
    restarts: int = 0

    def start(self) -> None:
        """Start it."""
        self.process = self.launch.start()

    def stop(self) -> None:
        """End it, killed if it does not in time."""
        if self.process is not None:
            run_steps(stop_steps(self.process, signal.SIGTERM, DOWN_S_MAX))


@dataclass
class Town:
    """A platform that is up, with all its neighbours."""

    running: Running
    has_small_disk: bool = False
    extras: dict[str, Extra] = field(default_factory=dict)
    struck: Counter[str] = field(default_factory=Counter)
    _keeper: "asyncio.Task[None] | None" = None
    _thawing: "set[asyncio.Task[None]]" = field(default_factory=set)

    async def __aenter__(self) -> Self:
        scheduler = self.running.environ("scheduler")
        nats_url = self.running.bus_login().url
        self._postgres_dsn = self.running.postgres.dsn
        # Its clock is wrong: it gives work out, and must end nothing as overdue.
        skewed = ("tests.system.chaos.skewed", "scheduler", str(SKEW_S))
        self._add_second("scheduler", {}, skewed)
        self._add_second("ranker", {"LISTEN": f"127.0.0.1:{free_port()}"})
        ranker_url = f"http://{self._setting('ranker-2', 'ranker', 'LISTEN')}"
        ingest = {"LISTEN": f"127.0.0.1:{free_port()}", "RANKER_URL": ranker_url}
        self._add_second("ingest", ingest)
        for name, (gpu, count) in NOOPS.items():
            told = {
                "NATS_URL": nats_url,
                "KEYS": str(self.running.folder / "keys"),
                "COUNT": str(count),
                "NAMES": name,
                "GPU": gpu,
                "TOOK_S_MIN": str(TOOK_S[0]),
                "TOOK_S_MAX": str(TOOK_S[1]),
                "HEARTBEAT_S": "0.5",
                "WRONG_SHARE": str(WRONG_SHARE),
            }
            environ = {f"WARPBOARD_NOOP_{key}": value for key, value in told.items()}
            found = _found_here(scheduler.get("PYTHONPATH", ""))
            mutants = {"WARPBOARD_MUTANTS": scheduler.get("WARPBOARD_MUTANTS", "")}
            self._add(name, ("bench.noop_agent",), os.environ | mutants | environ | found)
        for extra in self.extras.values():
            extra.start()
        self._keeper = asyncio.create_task(self._keep())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._keeper is not None
        self._keeper.cancel()
        self.thaw()
        for extra in self.extras.values():
            await asyncio.to_thread(extra.stop)

    @property
    def urls(self) -> list[str]:
        """The public addresses: of the platform's own ingest, and of the second."""
        return [self.running.url, f"http://{self._setting('ingest-2', 'ingest', 'LISTEN')}"]

    def _setting(self, name: str, service: str, key: str) -> str:
        environ = self.extras[name].launch.environ or {}
        return environ[f"WARPBOARD_{service.upper()}_{key}"]

    def _add_second(
        self, service: str, settings: dict[str, str], module: tuple[str, ...] = ()
    ) -> None:
        """A second process of a service, with addresses of its own."""
        told = settings | {"OPS_LISTEN": f"127.0.0.1:{free_port()}"}
        environ = {f"WARPBOARD_{service.upper()}_{key}": value for key, value in told.items()}
        environ = self.running.environ(service) | environ
        environ |= _found_here(environ.get("PYTHONPATH", ""))
        self._add(f"{service}-2", module or (service,), environ)

    def _add(self, name: str, module: tuple[str, ...], environ: dict[str, str]) -> None:
        log = self.running.folder.parent / f"{name}.log"
        self.extras[name] = Extra(Launch((sys.executable, "-m", *module), log, environ=environ))

    async def _keep(self) -> None:
        """Bring back the neighbours that died, for ever."""
        while True:
            await asyncio.sleep(RESTART_S)
            for extra in self.extras.values():
                if extra.process is not None and extra.process.poll() is not None:
                    extra.restarts += 1
                    extra.start()

    def pid(self, name: str) -> int | None:
        """The process of a name, None while it has none."""
        if name not in self.extras:
            return self.running.pid(name)
        process = self.extras[name].process
        return process.pid if process is not None and process.poll() is None else None

    async def suffer(self, strikes: list[Strike]) -> None:
        """Every strike at its time; returns once all that was frozen goes on."""
        began = time.monotonic()
        for strike in strikes:
            await asyncio.sleep(max(0.0, began + strike.at_s - time.monotonic()))
            self._strike(strike)
        if self._thawing:
            await asyncio.wait(self._thawing)

    def _strike(self, strike: Strike) -> None:
        pid = self.pid(strike.whom)
        if pid is None:
            self.struck[f"missed {strike.whom}"] += 1
            return
        if strike.what == "fill" and not self.has_small_disk:
            self.struck["not here: fill"] += 1
            return
        self.struck[f"{strike.what} {strike.whom}"] += 1
        if strike.what == "kill":
            _send([pid], signal.SIGKILL)
            return
        if strike.what == "fill":
            fault = fill(self.running.folder / "nats", strike.for_s)
        elif strike.what == "read_only":
            fault = keep_from_writing(self._postgres_dsn, strike.for_s)
        else:
            fault = _freeze(pid, strike.for_s)
        task = asyncio.create_task(fault)
        self._thawing.add(task)
        task.add_done_callback(self._thawing.discard)

    def thaw(self) -> None:
        """Let everything go on."""
        names = [*self.extras, *(row["name"] for row in self.running.state["processes"])]
        for pid in filter(None, map(self.pid, names)):
            _send(_family(pid), signal.SIGCONT)


async def _freeze(pid: int, for_s: float) -> None:
    """A process and its children stand still; Postgres has one for each connection."""
    family = _family(pid)
    _send(family, signal.SIGSTOP)
    try:
        await asyncio.sleep(for_s)
    finally:
        _send(family, signal.SIGCONT)


def _family(pid: int) -> list[int]:
    """A process and all beneath it."""
    with contextlib.suppress(OSError):
        said = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [pid, *(one for child in said for one in _family(int(child)))]
    return [pid]


def _send(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _found_here(path: str) -> dict[str, str]:
    """Where programs of benchmarks and tests lie, whatever the folder we were started in."""
    return {"PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), path]))}


def fresh_seed() -> int:
    """A seed that nobody chose."""
    return secrets.randbelow(1_000_000)
