"""The local platform: servers and services in order, brought back when they die."""

import asyncio
import os
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from shared.servers import lock as locks
from shared.servers.nats import NatsServer
from shared.servers.postgresql import Postgres
from shared.servers.secret import kept
from warpboard.processes import state
from warpboard.processes.child import STEP_S, Child, Leashed, ServiceProcess
from warpboard.processes.enrolment import Desk, enrol
from warpboard.processes.nats_restart import WRITERS, NatsRestart
from warpboard.processes.services import (
    AGENT,
    AGENT_ID,
    ESSENTIAL,
    PORTS,
    Place,
    Service,
    local_services,
    with_discord,
)

# As long as services that lost their platform may take to drain.
ORPHANS_S_MAX = 30.0
# Who has a bot says so by its token.
BOT = "WARPBOARD_DISCORD_EDGE_TOKEN"
# The ids of more agents on this machine, which somebody starts beside the platform's own.
AGENTS = "WARPBOARD_AGENTS"

Table = Callable[[Place], Sequence[Service]]


async def _together(*jobs: Coroutine[Any, Any, None]) -> None:
    """Run all to their end; the first failure cancels the rest and is ours."""
    tasks = [asyncio.create_task(job) for job in jobs]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Platform:
    """Everything that runs in one folder on this machine.

    Services get `environ`, their addresses, and over both of these `overrides`. Children are
    started by the main thread, because they end with the thread that started them.
    """

    def __init__(
        self,
        folder: Path,
        environ: Mapping[str, str],
        overrides: Mapping[str, str] | None = None,
        table: Table = local_services,
    ) -> None:
        self.folder = folder.absolute()
        self.children: list[Child] = []
        self.url = ""
        self._environ, self._overrides = environ, overrides or {}
        self._table = table
        self._lock: int | None = None
        self._claims: state.Claims | None = None
        self._kept: dict[str, Any] = {}
        self._nats_restart: NatsRestart | None = None

    async def start(self) -> None:
        """Start all; what was started before a failure or a cancellation is left to `stop`.

        Errors: InUse if another platform has the folder; Failed, with the end of a log.
        """
        self._lock = await self._hold()
        locks.sign(self._lock, os.getpid())
        self._open_folder()
        self._claims = state.Claims()
        ports = state.ports(state.read(self.folder).get("ports", {}), PORTS, self._claims.take)
        self.url = f"http://127.0.0.1:{ports['ingest']}"
        self._kept = {
            "pid": os.getpid(),
            "url": self.url,
            "ports": ports,
            "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        nats = NatsServer(self.folder / "nats", ports["nats"], agents=self._agents())
        postgres = Postgres(self.folder / "postgres")
        for server in (nats, postgres):
            server.log = self._log(server.name)
            await self._start(self._add(server))
        token, reader_key = kept(self.folder / "operator_token"), kept(self.folder / "reader_key")
        has_edge = BOT in self._environ or self._table is with_discord
        edge_token = kept(self.folder / "edge_token") if has_edge else ""
        place = Place(
            self.folder,
            nats.url,
            nats.agent_url(AGENT_ID),
            postgres.dsn,
            ports,
            token,
            reader_key,
            edge_token,
        )
        table = self._table(place)
        services = [self._service(service, self._lock) for service in table]
        self._nats_restart = NatsRestart(
            nats, [one.ops_port for one in table if one.name in WRITERS]
        )
        enrolled = [
            enrol(Desk(self.url, token), one.command, self._environ_of(one))
            for one in table
            if one.name == AGENT
        ]
        await _together(*map(self._start, services), *enrolled)

    def _agents(self) -> Sequence[str]:
        """The agents that have an account on the bus: the platform's own, and those added to it."""
        return (AGENT_ID, *self._environ.get(AGENTS, "").split())

    async def _hold(self) -> int:
        """Lock the folder; services of a killed platform get the time to drain."""
        until = time.monotonic() + ORPHANS_S_MAX
        while True:
            try:
                return locks.hold(self.folder)
            except locks.InUse as used:
                if used.pid is not None or time.monotonic() > until:
                    raise
            await asyncio.sleep(STEP_S)

    def _open_folder(self) -> None:
        """Under root, let user nobody walk to Postgres; whatever else lies here stays closed."""
        for closed in ("agent", "logs"):
            (self.folder / closed).mkdir(mode=0o700, exist_ok=True)
        if os.geteuid() == 0:
            self.folder.chmod(0o711)

    def _log(self, name: str) -> Path:
        return self.folder / "logs" / f"{name.lower()}.log"

    def _add(self, leashed: Leashed) -> Child:
        self.children.append(Child(leashed, is_essential=leashed.name in ESSENTIAL))
        return self.children[-1]

    def _service(self, service: Service, lock: int) -> Child:
        log, environ = self._log(service.name), self._environ_of(service)
        return self._add(ServiceProcess(service, log, environ, lock))

    def _environ_of(self, service: Service) -> dict[str, str]:
        return {**self._environ, **service.environ, **self._overrides}

    async def _start(self, child: Child) -> None:
        try:
            await child.start()
        finally:
            self._save()

    async def watch(self) -> None:
        """Bring back whatever dies, for ever.

        A nats-server that stores nothing more is ended, so that it is brought back too. Errors:
        Failed when the log, ingest or scheduler dies again and again.
        """
        assert self._nats_restart is not None, "start() comes before"
        await _together(self._nats_restart.run(), *map(self._keep, self.children))

    async def _keep(self, child: Child) -> None:
        while True:
            await child.death()
            pause_s = child.pause_s()
            self._save()
            await asyncio.sleep(pause_s)
            await child.restart()
            self._save()

    async def stop(self) -> None:
        """Stop all in reverse order, each within its limit, even if one of them cannot be."""
        if self._lock is None:
            return
        if self._nats_restart is not None:
            await asyncio.to_thread(self._nats_restart.end_failing)
        async with AsyncExitStack() as last_first:
            last_first.callback(self._release, self._lock)
            for child in self.children:
                last_first.push_async_callback(self._stop, child)

    async def _stop(self, child: Child) -> None:
        child.state = "stopping"
        self._save()
        await child.stop()
        self._save()

    def _release(self, lock: int) -> None:
        self._kept["pid"] = None
        self._save()
        os.close(lock)
        self._lock = None
        if self._claims is not None:
            self._claims.close()

    def kill(self) -> None:
        """End all at once; `stop` still has to follow."""
        for child in self.children:
            child.kill()

    @property
    def rows(self) -> list[state.Row]:
        """How each process is now."""
        return [child.row for child in self.children]

    def _save(self) -> None:
        rows = [row._asdict() for row in self.rows]
        state.write(self.folder, {**self._kept, "processes": rows})
