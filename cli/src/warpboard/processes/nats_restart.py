"""Restarts a nats-server that cannot store events although its disk has room.

After a failed write a server refuses all writes until it is restarted, even if somebody has made
room. It is killed, not stopped: what it acknowledged is on disk, but an orderly stop may write the
event that it could not store, which leaves a hole in the log.
"""

import asyncio
import logging
import os
import time
from collections.abc import Sequence
from math import inf

from shared.health import LOG_STORE_PART
from shared.servers.nats import NatsServer
from warpboard.processes.child import read_health

# The services that append to the log, and report when they cannot.
WRITERS = ("ingest", "scheduler", "ranker")
CHECK_S = 2.0
# A slow disk may recover within this time without a restart.
FAILING_S_MIN = 5.0
# On a disk with less room the next write would fail again.
FREE_BYTES_MIN = 64 * 1024 * 1024
PAUSE_S_MIN = 30.0
PAUSE_S_MAX = 600.0
# A restart helped if events were stored for so long after it; services notice a failure sooner.
WELL_S_MIN = 30.0

log = logging.getLogger(__name__)


class RestartPolicy:
    """Decides when to restart a nats-server that stores nothing.

    Restarts that do not help are made ever less often; after one that helped the next failure is
    treated like the first. Times are in seconds of a monotonic clock.
    """

    def __init__(self) -> None:
        self._failing_since_s: float | None = None
        self._well_since_s: float | None = None
        self._restarted_at_s: float | None = None
        self._pause_s = PAUSE_S_MIN

    def is_due(self, *, is_failing: bool, has_room: bool, now_s: float) -> bool:
        """Return whether to restart now; the caller then restarts it."""
        if not is_failing:
            self._failing_since_s = None
            self._well_since_s = self._well_since_s or now_s
            if now_s - self._well_since_s >= WELL_S_MIN:
                self._pause_s, self._restarted_at_s = PAUSE_S_MIN, None
            return False
        self._well_since_s = None
        self._failing_since_s = self._failing_since_s or now_s
        since_restart_s = inf if self._restarted_at_s is None else now_s - self._restarted_at_s
        is_long = now_s - self._failing_since_s >= FAILING_S_MIN
        if not (is_long and since_restart_s >= self._pause_s and has_room):
            return False
        self._restarted_at_s, self._failing_since_s = now_s, None
        self._pause_s = min(2 * self._pause_s, PAUSE_S_MAX)
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
            log.warning("restarting nats-server: %s", reason)
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
