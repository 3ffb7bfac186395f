"""A child process of the platform: starting, restarting and stopping it.

A process that lives and has answered nothing for 30 s is killed, so that it is restarted: it may be
frozen or hang.

A nats-server that cannot store events although its disk has room is restarted, too. After a failed
write a server refuses all writes until it is restarted, even if somebody has made room. It is
killed, not stopped: what it acknowledged is on disk, but an orderly stop may write the event that
it could not store, which leaves a hole in the log.
"""

import asyncio
import http.client
import json
import logging
import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import closing
from math import inf
from pathlib import Path
from typing import Protocol

from shared.errors import Failed
from shared.health import LOG_STORE_PART, LOOP_PART
from shared.servers import process as processes
from shared.servers.nats import NatsServer
from shared.servers.process import FolderInUse, Steps
from warpboard.processes.services import HOST, ProcessRow, Service

# The machine may be slow or busy.
READY_S_MAX = 120.0
PROBE_S_MAX = 0.5
HEALTH_BYTES_MAX = 64 * 1024
# Steps grow, because a service that starts has to answer each probe.
STEP_S, STEP_S_MAX, STEP_GROWTH = 0.02, 0.1, 1.1
# A service that answers but reports trouble is up: what it waits for may take long.
UNHEALTHY_S_MAX = 10.0
PAUSE_S_MIN = 0.2
PAUSE_S_MAX = 5.0
DEATHS_MAX = 8
DEATHS_WITHIN_S = 60.0
# The pause between starts of a non-essential service that died this often.
LONG_PAUSE_S = 30.0

# A process is asked every few seconds, and killed after so many probes in a row without an answer:
# a machine or a platform that stood still for a while misses one of them.
PROBE_EVERY_S = 5.0
UNANSWERED_MAX = 6

# The services that append to the log, and report when they cannot.
WRITERS = ("ingest", "scheduler", "ranker")
CHECK_S = 2.0
# A slow disk may recover within this time without a restart.
FAILING_S_MIN = 5.0
# On a disk with less room the next write would fail again.
FREE_BYTES_MIN = 64 * 1024 * 1024
RESTART_PAUSE_S_MIN = 30.0
RESTART_PAUSE_S_MAX = 600.0
# A restart helped if events were stored for so long after it; services notice a failure sooner.
WELL_S_MIN = 30.0

_log = logging.getLogger(__name__)


class ManagedProcess(Protocol):
    """A server or service that can be started, watched and stopped."""

    name: str
    log: Path
    process: "subprocess.Popen[bytes] | None"

    @property
    def address(self) -> str:
        """Its address, without passwords."""
        ...

    def starting(self) -> Steps:
        """Start, yielding to wait, until it answers; if closed early, leave nothing behind.

        Raises Failed or InUse.
        """
        ...

    def stopping(self) -> Steps:
        """Stop within its limit, yielding to wait."""
        ...

    def answers(self, within_s: float) -> bool:
        """Return whether it answers, in whatever health; blocks for at most about `within_s`."""
        ...


def read_health(port: int, within_s: float = PROBE_S_MAX) -> dict[str, str] | None:
    """Return the failing parts of a service and why, from its ops port; None without an answer."""
    connection = http.client.HTTPConnection(HOST, port, timeout=within_s)
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


class ServiceProcess:
    """One of our services in its own process."""

    def __init__(self, service: Service, log: Path, environ: Mapping[str, str], lock: int) -> None:
        self.name, self.log, self.address = service.name, log, service.address
        self.service = service
        self.process: subprocess.Popen[bytes] | None = None
        # Every service holds the lock, so the folder is free only when all are gone.
        self._launch = processes.Launch(service.command, log, environ=environ, locks=(lock,))

    def starting(self) -> Steps:
        """Start; it is up when /healthz is ok, or has reported trouble for 10 s."""
        self.process = process = self._launch.start()
        deadline = time.monotonic() + READY_S_MAX
        unhealthy_since: float | None = None
        is_up = False
        try:
            while not is_up:
                parts, at = read_health(self.service.ops_port), time.monotonic()
                unhealthy_since = (unhealthy_since or at) if parts else None
                is_unhealthy_long = (
                    unhealthy_since is not None and at - unhealthy_since >= UNHEALTHY_S_MAX
                )
                is_up = parts == {} or is_unhealthy_long
                if is_up:
                    return
                if process.poll() is not None or at > deadline:
                    failed = processes.startup_failure(self.name, process, self.log, READY_S_MAX)
                    reasons = (f"\n{part}: {reason}" for part, reason in (parts or {}).items())
                    raise Failed(f"{failed}{''.join(reasons)}")
                yield
        finally:
            if not is_up:
                processes.kill(process)

    def stopping(self) -> Steps:
        """Let it drain and stop."""
        if self.process is not None:
            yield from processes.stop_steps(self.process, signal.SIGTERM, self.service.stop_s)

    def answers(self, within_s: float) -> bool:
        """Return whether its ops port answers and its event loop turns."""
        parts = read_health(self.service.ops_port, within_s)
        return parts is not None and LOOP_PART not in parts


class Child:
    """A child process that is restarted when it dies.

    The platform needs its essential children: if one dies too often, the platform ends with the
    reason. Any other child is restarted for ever.
    """

    def __init__(self, managed: ManagedProcess, *, is_essential: bool = True) -> None:
        self.managed = managed
        self.is_essential = is_essential
        self.state = "stopped"
        self.restarts = 0
        self.trouble = ""
        self._died_at: deque[float] = deque(maxlen=DEATHS_MAX)
        self._in_a_row = 0

    @property
    def row(self) -> ProcessRow:
        """Its current state."""
        process = self.managed.process
        pid = process.pid if process is not None and self.is_alive() else None
        return ProcessRow(self.managed.name, self.state, pid, self.restarts, self.managed.address)

    def is_alive(self) -> bool:
        """Return whether its process runs."""
        process = self.managed.process
        return process is not None and process.poll() is None

    async def start(self) -> None:
        """Start it and return when it answers; cancelled, leave nothing behind. Raises Failed."""
        self.state = "starting"
        await self._drive(self.managed.starting())
        self.state = "up"

    async def stop(self) -> None:
        """Stop it within its own limit."""
        await self._drive(self.managed.stopping())
        self.state = "stopped"

    def kill(self) -> None:
        """Kill it at once."""
        if self.managed.process is not None:
            processes.kill(self.managed.process)

    async def death(self) -> None:
        """Wait until its process is dead, and kill what it left in its process group."""
        process = self.managed.process
        if process is not None and process.poll() is None:
            await _wait_for_end(process.pid)
        self.kill()
        self.managed.process = None

    async def end_silent(self) -> None:
        """Kill the process whenever it is up and six probes got no answer; runs until cancelled."""
        asked_pid, unanswered = None, 0
        while True:
            asked_at, pid = time.monotonic(), self.row.pid
            is_silent = (
                self.state == "up"
                and pid is not None
                and not await asyncio.to_thread(self.managed.answers, PROBE_EVERY_S)
                and self.row.pid == pid
            )
            unanswered = unanswered + 1 if is_silent and pid == asked_pid else int(is_silent)
            asked_pid = pid
            if unanswered >= UNANSWERED_MAX:
                self.trouble = f"it has not answered for {UNANSWERED_MAX * PROBE_EVERY_S:.0f} s"
                _log.warning("restarting %s: %s", self.managed.name, self.trouble)
                unanswered = 0
                self.kill()
            await asyncio.sleep(max(0.0, asked_at + PROBE_EVERY_S - time.monotonic()))

    def pause_s(self) -> float:
        """Count a death, and return how long to wait before the next start.

        Raises Failed with the last lines of the log if an essential child died 8 times in 60 s.
        """
        now = time.monotonic()
        if self._died_at and now - self._died_at[-1] > DEATHS_WITHIN_S:
            self._in_a_row = 0
        self._died_at.append(now)
        self._in_a_row += 1
        recent = sum(now - died_at < DEATHS_WITHIN_S for died_at in self._died_at)
        reason = self.trouble or processes.tail(self.managed.log)
        died = f"{self.managed.name} died {recent} times in {DEATHS_WITHIN_S:.0f} s"
        if self.is_essential and recent >= DEATHS_MAX:
            raise Failed(f"{died}:\n{reason}")
        self.restarts += 1
        self.state = "waiting"
        deaths = recent if self.is_essential else self._in_a_row
        if deaths < DEATHS_MAX:
            return min(PAUSE_S_MIN * 2.0 ** (deaths - 1), PAUSE_S_MAX)
        if self._in_a_row == DEATHS_MAX:
            retry_note = f"it is started again every {LONG_PAUSE_S:.0f} s"
            _log.error("%s; %s:\n%s", died, retry_note, reason)
        return LONG_PAUSE_S

    async def restart(self) -> None:
        """Start it again; a failed start counts as one more death."""
        self.trouble = ""
        try:
            await self.start()
        except (Failed, FolderInUse, OSError) as trouble:
            self.trouble = str(trouble)

    async def _drive(self, steps: Steps) -> None:
        step_s = STEP_S
        with closing(steps):
            for _ in steps:
                await asyncio.sleep(step_s)
                step_s = min(STEP_GROWTH * step_s, STEP_S_MAX)


async def _wait_for_end(pid: int) -> None:
    """Wait until a child process, which nobody has waited for yet, has ended."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    pidfd = os.pidfd_open(pid)
    loop.add_reader(pidfd, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(pidfd)
        os.close(pidfd)


class RestartPolicy:
    """Decides when to restart a nats-server that stores nothing.

    Restarts that do not help are made ever less often; after one that helped the next failure is
    treated like the first. Times are in seconds of a monotonic clock.
    """

    def __init__(self) -> None:
        self._failing_since_s: float | None = None
        self._well_since_s: float | None = None
        self._restarted_at_s: float | None = None
        self._pause_s = RESTART_PAUSE_S_MIN

    def is_due(self, *, is_failing: bool, has_room: bool, now_s: float) -> bool:
        """Return whether to restart now; the caller then restarts it."""
        if not is_failing:
            self._failing_since_s = None
            self._well_since_s = self._well_since_s or now_s
            if now_s - self._well_since_s >= WELL_S_MIN:
                self._pause_s, self._restarted_at_s = RESTART_PAUSE_S_MIN, None
            return False
        self._well_since_s = None
        self._failing_since_s = self._failing_since_s or now_s
        since_restart_s = inf if self._restarted_at_s is None else now_s - self._restarted_at_s
        is_long = now_s - self._failing_since_s >= FAILING_S_MIN
        if not (is_long and since_restart_s >= self._pause_s and has_room):
            return False
        self._restarted_at_s, self._failing_since_s = now_s, None
        self._pause_s = min(2 * self._pause_s, RESTART_PAUSE_S_MAX)
        return True


class NatsRestart:
    """Watches the store of one nats-server; `ops_ports` are those of the services to ask.

    It only kills the server; whoever watches the process starts it again.
    """

    def __init__(self, server: NatsServer, ops_ports: Sequence[int]) -> None:
        self._server = server
        self._ops_ports = ops_ports
        self._policy = RestartPolicy()

    def end_failing(self) -> None:
        """Kill the server if it cannot store events, before anybody stops it in an orderly way."""
        if self._read_failure():
            self._server.kill()

    async def run(self) -> None:
        """Check until cancelled."""
        while True:
            await asyncio.sleep(CHECK_S)
            await self._check_store()

    async def _check_store(self) -> None:
        reason = await asyncio.to_thread(self._read_failure)
        is_failing = bool(reason) and self._server.is_alive()
        has_room, now_s = self._has_room(), time.monotonic()
        if self._policy.is_due(is_failing=is_failing, has_room=has_room, now_s=now_s):
            _log.warning("restarting nats-server: %s", reason)
            self._server.kill()

    def _read_failure(self) -> str:
        """Return why events cannot be stored, from the first service that reports it."""
        for port in self._ops_ports:
            if reason := (read_health(port) or {}).get(LOG_STORE_PART):
                return reason
        return ""

    def _has_room(self) -> bool:
        disk = os.statvfs(self._server.folder)
        return disk.f_bavail * disk.f_frsize >= FREE_BYTES_MIN
