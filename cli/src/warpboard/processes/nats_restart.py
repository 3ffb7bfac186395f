"""Restarts a nats-server that stores nothing more although its disk has room.

After a failed write a server refuses all others until it is restarted: it does not notice that
somebody made room. It is killed, not stopped: what it acknowledged is on the disk, but an orderly
stop may write down the event that it could not store, which makes a hole in the log.
"""

import asyncio
import logging
import os
import time
from collections.abc import Sequence

from shared.health import LOG_STORE
from shared.servers.nats import NatsServer
from warpboard.processes.child import read_health

# The services that append to the log, and say when they cannot.
WRITERS = ("ingest", "scheduler", "ranker")
LOOK_S = 2.0
# As long as a slow disk may take before a restart could help.
FAILING_S_MIN = 5.0
# On a disk with less room the next write would fail again.
FREE_BYTES_MIN = 64 * 1024 * 1024
PAUSE_S_MIN = 30.0
PAUSE_S_MAX = 600.0

log = logging.getLogger(__name__)


class NatsRestart:
    """Looks after the store of one nats-server; `ops_ports` are those of the services to ask.

    The server is only killed here: whoever watches its process starts it again.
    """

    def __init__(self, server: NatsServer, ops_ports: Sequence[int]) -> None:
        self._server = server
        self._ops_ports = ops_ports
        self._failing_since: float | None = None
        self._stopped_at = -PAUSE_S_MAX
        self._pause_s = PAUSE_S_MIN

    def end_failing(self) -> None:
        """Kill the server if it stores nothing now, before anybody stops it in an orderly way."""
        if self._read_failure():
            self._server.kill()

    async def run(self) -> None:
        """Look for ever."""
        while True:
            await asyncio.sleep(LOOK_S)
            await self._look()

    async def _look(self) -> None:
        reason = await asyncio.to_thread(self._read_failure)
        now = time.monotonic()
        if not reason or not self._server.is_alive():
            self._failing_since = None
            if now - self._stopped_at > PAUSE_S_MAX:
                self._pause_s = PAUSE_S_MIN
            return
        if self._failing_since is None:
            self._failing_since = now
        is_due = now - self._failing_since >= FAILING_S_MIN
        if is_due and now - self._stopped_at >= self._pause_s and self._has_room():
            log.warning("restarting nats-server: %s", reason)
            self._stopped_at, self._failing_since = now, None
            self._pause_s = min(2 * self._pause_s, PAUSE_S_MAX)
            self._server.kill()

    def _read_failure(self) -> str:
        """Why events cannot be stored, as the first service says that says so."""
        for port in self._ops_ports:
            if reason := (read_health(port) or {}).get(LOG_STORE):
                return reason
        return ""

    def _has_room(self) -> bool:
        disk = os.statvfs(self._server.folder)
        return disk.f_bavail * disk.f_frsize >= FREE_BYTES_MIN
