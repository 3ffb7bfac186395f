"""The local platform: servers and services, started in order and restarted when they die."""

import asyncio
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from shared.api_client import Unavailable, v1_path
from shared.errors import Failed, Refused
from shared.servers import process as processes
from shared.servers.nats import NatsServer
from shared.servers.postgresql import ROLES, Postgres
from shared.servers.process import load_password
from warpboard.api import Api, Caller, open_api
from warpboard.domain.demand import DEFAULT_PLAN, AgentPlan
from warpboard.processes.child import (
    STEP_S,
    WRITERS,
    Child,
    ManagedProcess,
    NatsRestart,
    ServiceProcess,
)
from warpboard.processes.services import (
    AGENT,
    ESSENTIAL,
    SIM_LAUNCHERS,
    SIM_USERS,
    PlatformConfig,
    PortClaims,
    ProcessRow,
    Service,
    agent_ids,
    choose_ports,
    launcher_agents,
    local_services,
    platform_ports,
    read_state,
    with_discord,
    write_state,
)

# The time for services of a killed platform to drain.
ORPHANS_S_MAX = 30.0
# A bot is configured by its token.
BOT = "WARPBOARD_DISCORD_EDGE_TOKEN"
# The ids of additional agents on this machine, which the user starts.
AGENTS = "WARPBOARD_AGENTS"
Table = Callable[[PlatformConfig], Sequence[Service]]
KEY_S_MAX = 30.0
DATABASE_S_MAX = 90.0
ENROL_S_MAX = 30.0
ENROL_STEP_S = 0.1
CLIENT_ALONE = (
    "only the client is installed here: run `make install` in a checkout of the repository, "
    "which installs the platform, too"
)
# The agent was revoked for ever: it keeps running, but nothing that it reports is ranked.
REVOKED = "wrong_state"
# Unless the environment says otherwise: nobody publishes releases of a platform of one machine.
LOCAL = {"WARPBOARD_INGEST_ASKS_LICENCE": "false"}


async def _run_together(*jobs: Coroutine[Any, Any, None]) -> None:
    """Run all jobs to their end; the first failure cancels the others and is raised."""
    tasks = [asyncio.create_task(job) for job in jobs]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Platform:
    """Everything that runs in one folder on this machine.

    Services get `LOCAL`, `environ`, their addresses, and `overrides`, each on top of the others.
    The main thread starts children, because they end with the thread that started them.
    """

    def __init__(
        self,
        folder: Path,
        environ: Mapping[str, str],
        overrides: Mapping[str, str] | None = None,
        table: Table = local_services,
        plan: AgentPlan = DEFAULT_PLAN,
    ) -> None:
        self.folder = folder.absolute()
        self.children: list[Child] = []
        self.url = ""
        self._environ, self._overrides = environ, overrides or {}
        self._table, self._plan = table, plan
        self._lock: int | None = None
        self._claims: PortClaims | None = None
        self._state: dict[str, Any] = {}
        self._nats_restart: NatsRestart | None = None

    async def start(self) -> None:
        """Start everything; after a failure or cancellation, `stop` ends what was started.

        Raises Refused if another platform has the folder or only the client is installed,
        and Failed with the end of a log.
        """
        if find_spec("ingest") is None:
            raise Refused("not_installed", CLIENT_ALONE)
        self._lock = await self._lock_folder()
        processes.write_lock_holder(self._lock, os.getpid())
        self._open_folder()
        self._claims = PortClaims()
        stand_ins = SIM_LAUNCHERS if self._table is with_discord else ()
        launchers = launcher_agents(self._plan.launched, stand_ins)
        names = platform_ports(len(self._plan.devices), launchers)
        ports = choose_ports(read_state(self.folder).get("ports", {}), names, self._claims.take)
        self.url = f"http://127.0.0.1:{ports['ingest']}"
        self._state = {
            "pid": os.getpid(),
            "url": self.url,
            "ports": ports,
            "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        # The agents with an account on the bus: the platform's own and additional ones.
        own_agents = agent_ids(len(self._plan.devices))
        launched = [agent for names in launchers.values() for agent in names]
        agents = dict.fromkeys([*own_agents, *launched, *self._environ.get(AGENTS, "").split()])
        users = [f"agent-{agent}" for agent in agents] + [f"launcher-{name}" for name in launchers]
        nats = NatsServer(self.folder / "nats", ports["nats"], users, self.folder / "keys")
        postgres = Postgres(self.folder / "postgres")
        for server in (nats, postgres):
            server.log = self._log_path(server.name)
            await self._start(self._add_child(server))
        nats.authority.save_address(nats.url)
        token = load_password(self.folder / "operator_token")
        has_edge = BOT in self._environ or self._table is with_discord
        config = PlatformConfig(
            folder=self.folder,
            nats_url=nats.url,
            credentials=nats.authority.credentials_folder,
            agents=own_agents,
            postgres_dsns={role: postgres.dsn_of(role) for role in ROLES},
            ports=ports,
            operator_token=token,
            reader_key=load_password(self.folder / "reader_key"),
            edge_token=load_password(self.folder / "edge_token") if has_edge else "",
            devices=self._plan.devices,
            launchers=launchers,
        )
        table = self._table(config)
        services = [self._add_service(service, self._lock) for service in table]
        self._nats_restart = NatsRestart(
            nats, [service.ops_port for service in table if service.name in WRITERS]
        )
        enrolled = [
            enrol(self.url, token, service.command, self._environ_of(service))
            for service in table
            if service.name.startswith(AGENT)
        ]
        if self._table is with_discord:
            enrolled.append(give_roles(self.url, token))
        database = prepare_database({**self._environ, **postgres.database_environ()})
        # Services wait for it, so that its start costs no time.
        await _run_together(database, *map(self._start, services), *enrolled)

    async def _lock_folder(self) -> int:
        """Lock the folder, waiting for services of a killed platform to drain."""
        deadline = time.monotonic() + ORPHANS_S_MAX
        while True:
            try:
                return processes.lock_folder(self.folder)
            except processes.FolderInUse as used:
                if used.pid is not None and (url := read_state(self.folder).get("url")):
                    reason = (
                        f"a platform runs in {self.folder} already: {url}; "
                        "`warpboard status` shows it, `warpboard down` stops it"
                    )
                    raise Refused("in_use", reason) from used
                if used.pid is not None or time.monotonic() > deadline:
                    raise
            await asyncio.sleep(STEP_S)

    def _open_folder(self) -> None:
        """As root, let user nobody reach Postgres; everything else here stays closed."""
        for name in ("agent", "logs"):
            (self.folder / name).mkdir(mode=0o700, exist_ok=True)
        if os.geteuid() == 0:
            self.folder.chmod(0o711)

    def _log_path(self, name: str) -> Path:
        return self.folder / "logs" / f"{name.lower()}.log"

    def _add_child(self, managed: ManagedProcess) -> Child:
        self.children.append(Child(managed, is_essential=managed.name in ESSENTIAL))
        return self.children[-1]

    def _add_service(self, service: Service, lock: int) -> Child:
        log, environ = self._log_path(service.name), self._environ_of(service)
        return self._add_child(ServiceProcess(service, log, environ, lock))

    def _environ_of(self, service: Service) -> dict[str, str]:
        return {**LOCAL, **self._environ, **service.environ, **self._overrides}

    async def _start(self, child: Child) -> None:
        try:
            await child.start()
        finally:
            self._save()

    async def watch(self) -> None:
        """Restart whatever dies or no longer answers, until cancelled.

        A nats-server that cannot store events is killed, so that it is restarted, too. Raises
        Failed when the log, ingest or scheduler dies again and again.
        """
        assert self._nats_restart is not None, "start() must be called first"
        await _run_together(
            self._nats_restart.run(),
            *map(self._keep_alive, self.children),
            *(child.end_silent() for child in self.children),
        )

    async def _keep_alive(self, child: Child) -> None:
        while True:
            await child.death()
            pause_s = child.pause_s()
            self._save()
            await asyncio.sleep(pause_s)
            await child.restart()
            self._save()

    async def stop(self) -> None:
        """Stop everything in reverse order, each within its limit, even if one of them fails to
        stop.
        """
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
        self._state["pid"] = None
        self._save()
        os.close(lock)
        self._lock = None
        if self._claims is not None:
            self._claims.close()

    def kill(self) -> None:
        """Kill everything at once; `stop` must still follow."""
        for child in self.children:
            child.kill()

    @property
    def rows(self) -> list[ProcessRow]:
        """The current state of each process."""
        return [child.row for child in self.children]

    def _save(self) -> None:
        rows = [row._asdict() for row in self.rows]
        write_state(self.folder, {**self._state, "processes": rows})


Work = Callable[[Platform], Awaitable[None]]


async def _start_and_work(platform: Platform, work: Work) -> None:
    """Start and watch the platform during the work; whichever ends or fails first ends both."""

    async def run_work() -> None:
        await work(platform)

    await platform.start()
    tasks = [asyncio.create_task(platform.watch()), asyncio.create_task(run_work())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    for end in ends:
        if isinstance(end, Exception):
            raise end


async def supervise(platform: Platform, work: Work) -> signal.Signals | None:
    """Start the platform, do the work and stop everything; return the signal that ended it, if any.

    A first signal stops everything in order, during the start or the work; a second one kills.
    Raises the errors of `Platform.start`, `Platform.watch` and of the work.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.create_task(_start_and_work(platform, work))
    received: list[signal.Signals] = []

    def handle_signal(number: signal.Signals) -> None:
        received.append(number)
        if len(received) == 1:
            task.cancel()
        else:
            platform.kill()

    signals = [signal.SIGINT, signal.SIGTERM]
    # It is ignored under nohup.
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        signals.append(signal.SIGHUP)
    for number in signals:
        loop.add_signal_handler(number, handle_signal, number)
    try:
        await task
    except asyncio.CancelledError:
        if not received:
            raise
    finally:
        await platform.stop()
        for number in signals:
            loop.remove_signal_handler(number)
    return received[0] if received else None


async def prepare_database(environ: Mapping[str, str]) -> None:
    """Create the roles and tables of the services in Postgres. Raises Failed."""
    command = (sys.executable, "-P", "-m", "shared.database")
    await _run_command(command, environ, DATABASE_S_MAX, "the database was not prepared")


async def enrol(
    url: str, operator_token: str, command: Sequence[str], environ: Mapping[str, str]
) -> None:
    """Enrol the agent of this command with its own key; repeating it is harmless. Raises Failed."""
    agent = environ["WARPBOARD_GPU_AGENT_ID"]
    key = await _read_key((*command, "key"), environ)
    body = {"sign_key": key, "owner": "local", "reason": "it runs on the platform's own machine"}
    try:
        async with _open_operator_api(url, operator_token) as api:
            await _post_until_ready(api, "admin", "agents", agent, "enroll", body=body)
    except Refused as refused:
        if refused.code != REVOKED:
            raise Failed(f"agent {agent} was not enrolled: {refused.reason}") from refused


async def give_roles(url: str, operator_token: str) -> None:
    """Give the users of the simulated Discord their roles on the platform. Raises Failed.

    Repeating it is harmless.
    """
    reason = "a user of the simulated Discord"
    participants = ("admin", "participants")
    async with _open_operator_api(url, operator_token) as api:
        for user in SIM_USERS:
            if not user.role:
                continue
            identity = {"provider": "discord", "subject": user.id}
            for path, body in (
                (participants, {"name": user.name}),
                ((*participants, user.name, "identities"), identity),
                ((*participants, user.name, "roles"), {"role": user.role}),
            ):
                try:
                    await _post_until_ready(api, *path, body={**body, "reason": reason})
                except Refused as refused:
                    problem = f"{user.name} did not get the role {user.role}: {refused.reason}"
                    raise Failed(problem) from refused


def _open_operator_api(url: str, token: str) -> AbstractAsyncContextManager[Api]:
    return open_api(url, Caller(token=token, operator="warpboard-up"))


async def _read_key(command: Sequence[str], environ: Mapping[str, str]) -> str:
    return (await _run_command(command, environ, KEY_S_MAX, "the agent has no key")).strip()


async def _run_command(
    command: Sequence[str], environ: Mapping[str, str], within_s: float, failure: str
) -> str:
    """Run a command to its end and return what it prints. Raises Failed."""
    process = await asyncio.create_subprocess_exec(*command, env=environ, stdout=PIPE, stderr=PIPE)
    try:
        async with asyncio.timeout(within_s):
            out, errors = await process.communicate()
    except TimeoutError:
        raise Failed(f"{failure}: it did not end within {within_s:.0f} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise Failed(f"{failure}: {errors.decode(errors='replace').strip()}")
    return out.decode()


async def _post_until_ready(api: Api, *path: str, body: Mapping[str, str]) -> None:
    """Send the request until ingest, which starts at the same time, answers."""
    deadline = time.monotonic() + ENROL_S_MAX
    while True:
        try:
            await api.send("POST", v1_path(*path), json=body)
            return
        except Unavailable as trouble:
            if time.monotonic() > deadline:
                raise Failed(
                    f"ingest did not answer within {ENROL_S_MAX:.0f} s: {trouble}"
                ) from trouble
        await asyncio.sleep(ENROL_STEP_S)
