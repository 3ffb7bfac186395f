"""One child process of the platform, through its starts, deaths and its end."""

import asyncio
import http.client
import json
import logging
import signal
import subprocess
import time
from collections import deque
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Protocol

from shared.errors import Failed
from shared.servers import process as processes
from shared.servers.lock import InUse
from shared.servers.process import Steps
from warpboard.processes.services import HOST, Service
from warpboard.processes.state import Row

# A machine may be slow, or busy.
READY_S_MAX = 120.0
PROBE_S_MAX = 0.5
HEALTH_BYTES_MAX = 64 * 1024
STEP_S = 0.02
# A service that answers, and says that something ails it, runs: what it waits for may take long.
AILING_S_MAX = 10.0
PAUSE_S_MIN = 0.2
PAUSE_S_MAX = 5.0
DEATHS_MAX = 8
DEATHS_WITHIN_S = 60.0
# Between the starts of what died so often and is not needed to take submissions in.
LONG_PAUSE_S = 30.0

_log = logging.getLogger(__name__)


class Leashed(Protocol):
    """What can be started, watched and ended: an embedded server, or a service."""

    name: str
    log: Path
    process: "subprocess.Popen[bytes] | None"

    @property
    def address(self) -> str:
        """Where it answers, without any password."""
        ...

    def starting(self) -> Steps:
        """Start, yielding to wait, until it answers; closed early, leave nothing.

        Errors: Failed or InUse.
        """
        ...

    def stopping(self) -> Steps:
        """Stop within its limit, yielding to wait."""
        ...


def read_health(port: int) -> dict[str, str] | None:
    """The parts that a service calls ill on its ops port, and why; None if it does not answer."""
    connection = http.client.HTTPConnection(HOST, port, timeout=PROBE_S_MAX)
    try:
        connection.request("GET", "/healthz")
        response = connection.getresponse()
        if response.status == http.HTTPStatus.OK:
            return {}
        parts = json.loads(response.read(HEALTH_BYTES_MAX)).get("parts", {})
    except (OSError, http.client.HTTPException, ValueError, AttributeError):
        return None
    finally:
        connection.close()
    return {str(part): str(reason) for part, reason in parts.items()} or None


def _reasons(parts: Mapping[str, str] | None) -> str:
    """What ails a service, a line a part."""
    return "".join(f"\n{part}: {reason}" for part, reason in (parts or {}).items())


class ServiceProcess:
    """A service of ours in a process of its own."""

    def __init__(self, service: Service, log: Path, environ: Mapping[str, str], lock: int) -> None:
        self.name, self.log, self.address = service.name, log, service.address
        self.service = service
        self.process: subprocess.Popen[bytes] | None = None
        # With the lock in every service's hands, the folder is free only when all are gone.
        self._launch = processes.Launch(service.command, log, environ=environ, locks=(lock,))

    def starting(self) -> Steps:
        """Start; it is up when /healthz says so, or has said for 10 s what ails it."""
        self.process = process = self._launch.start()
        until = time.monotonic() + READY_S_MAX
        ailing_since: float | None = None
        is_up = False
        try:
            while not is_up:
                parts, at = read_health(self.service.ops_port), time.monotonic()
                ailing_since = (ailing_since or at) if parts else None
                is_long = ailing_since is not None and at - ailing_since >= AILING_S_MAX
                is_up = parts == {} or is_long
                if not is_up:
                    if process.poll() is not None or at > until:
                        failed = processes.unready(self.name, process, self.log, READY_S_MAX)
                        raise Failed(f"{failed}{_reasons(parts)}")
                    yield
        finally:
            if not is_up:
                processes.kill(process)

    def stopping(self) -> Steps:
        """Let it drain."""
        if self.process is not None:
            yield from processes.ending(self.process, signal.SIGTERM, self.service.stop_s)


class Child:
    """A child process that is brought back when it dies.

    Without an essential one the platform takes nothing in: when that dies too often, the platform
    ends and says why. Any other is started again for ever.
    """

    def __init__(self, leashed: Leashed, *, is_essential: bool = True) -> None:
        self.leashed = leashed
        self.is_essential = is_essential
        self.state = "stopped"
        self.restarts = 0
        self.trouble = ""
        self._died_at: deque[float] = deque(maxlen=DEATHS_MAX)
        self._in_a_row = 0

    @property
    def row(self) -> Row:
        """How it is now."""
        process = self.leashed.process
        pid = process.pid if process is not None and self.is_alive() else None
        return Row(self.leashed.name, self.state, pid, self.restarts, self.leashed.address)

    def is_alive(self) -> bool:
        """Whether its process runs."""
        process = self.leashed.process
        return process is not None and process.poll() is None

    async def start(self) -> None:
        """Start it, and return when it answers; cancelled, leave nothing. Errors: Failed."""
        self.state = "starting"
        await self._drive(self.leashed.starting())
        self.state = "up"

    async def stop(self) -> None:
        """End it, within its own limit."""
        await self._drive(self.leashed.stopping())
        self.state = "stopped"

    def kill(self) -> None:
        """End it at once."""
        if self.leashed.process is not None:
            processes.kill(self.leashed.process)

    async def death(self) -> None:
        """Wait until its process is dead, and end what that has left in its group."""
        await self._drive(self._dying())
        self.kill()
        self.leashed.process = None

    def _dying(self) -> Steps:
        while self.is_alive():
            yield

    def pause_s(self) -> float:
        """Count a death, and say how long to wait before the next start.

        Errors: Failed when an essential one died 8 times in 60 s, with the last lines of its log.
        """
        now = time.monotonic()
        if self._died_at and now - self._died_at[-1] > DEATHS_WITHIN_S:
            self._in_a_row = 0
        self._died_at.append(now)
        self._in_a_row += 1
        recent = sum(now - died_at < DEATHS_WITHIN_S for died_at in self._died_at)
        if self.is_essential and recent >= DEATHS_MAX:
            raise Failed(f"{self._often(recent)}:\n{self._last_words}")
        self.restarts += 1
        self.state = "waiting"
        deaths = recent if self.is_essential else self._in_a_row
        if deaths < DEATHS_MAX:
            return min(PAUSE_S_MIN * 2.0 ** (deaths - 1), PAUSE_S_MAX)
        if self._in_a_row == DEATHS_MAX:
            again = f"it is started again every {LONG_PAUSE_S:.0f} s"
            _log.error("%s; %s:\n%s", self._often(recent), again, self._last_words)
        return LONG_PAUSE_S

    def _often(self, times: int) -> str:
        return f"{self.leashed.name} died {times} times in {DEATHS_WITHIN_S:.0f} s"

    @property
    def _last_words(self) -> str:
        return self.trouble or processes.tail(self.leashed.log)

    async def restart(self) -> None:
        """Start it again; a start that fails is one more death, and is counted as such."""
        self.trouble = ""
        try:
            await self.start()
        except (Failed, InUse, OSError) as trouble:
            self.trouble = str(trouble)

    async def _drive(self, steps: Steps) -> None:
        with closing(steps):
            for _ in steps:
                await asyncio.sleep(STEP_S)
