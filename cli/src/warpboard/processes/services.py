"""The services of the local platform: their environment, their ports and their saved state."""

import fcntl
import json
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from harness.vocabulary import CPU_DEVICE
from shared.errors import Failed
from shared.servers import process as processes
from warpboard.domain.demand import Device

HOST = "127.0.0.1"
PORTS = (
    *("nats", "ingest", "ingest_ops", "ranker", "ranker_ops", "scheduler_ops", "gpu_agent_ops"),
    *("discord_edge_ops", "discord_sim"),
)
AGENT = "gpu-agent"
AGENT_ID = "local"
LAUNCHER = "launcher"
# The kind of a launcher that starts processes here, and its name unless it has another.
LOCAL_LAUNCHER = "local"
EDGE = "discord-edge"
SIM = "discord-sim"
# Without these the platform accepts no submissions. Readers of the log and agents may be down for
# a while: their work waits in the log.
ESSENTIAL = frozenset({"nats-server", "ingest", "scheduler"})
# Constant, so that the edge knows them before the simulator is up.
SIM_GUILD, SIM_LOBBY = "1300000000000000000", "1300000000000000001"
SIM_TOKEN = "simulated.bot.token"  # noqa: S105  (nobody's)
# The server's roles by those of the platform, with their ids. Discord hides the commands of
# moderators and admins from users who do not manage the server.
SIM_ROLES = {
    "creator": ("Leaderboard Creator", "1300000000000000011"),
    "moderator": ("Leaderboard Moderator", "1300000000000000012"),
    "admin": ("Leaderboard Admin", "1300000000000000013"),
}
SIM_MANAGERS = ("moderator", "admin")
# The bot has a command for each of these launchers.
SIM_LAUNCHERS = ("modal", "github")
AGENT_STOP_S = 15.0
# It stops its agents first.
LAUNCHER_STOP_S = 20.0
SERVICE_STOP_S = 10.0

STATE_FILE = "state.json"
DOWN_S_MAX = 90.0
DOWN_STEP_S = 0.05

# Below the range of ports for outgoing connections, so that none of these takes a service's port
# while that service restarts.
PORT_MIN, PORT_MAX = 20_000, 32_000
PORT_TRIES_MAX = 1000


def agent_ids(count: int) -> list[str]:
    """Return the ids of this machine's agents.

    >>> agent_ids(3)
    ['local', 'local-1', 'local-2']
    """
    return [AGENT_ID, *(f"{AGENT_ID}-{number}" for number in range(1, count))][:count]


def launcher_agents(launched: int, stand_ins: Iterable[str] = ()) -> dict[str, list[str]]:
    """Return the ids of the agents that each launcher of this machine may start, by its name.

    Stand-ins have the name of a cloud, and start their agent here.

    >>> launcher_agents(2, ["modal"])
    {'local': ['launched-1', 'launched-2'], 'modal': ['modal-stand-in']}
    """
    launched_ids = [f"launched-{number}" for number in range(1, launched + 1)]
    agents = {LOCAL_LAUNCHER: launched_ids} if launched else {}
    return agents | {name: [f"{name}-stand-in"] for name in stand_ins}


def platform_ports(agents: int, launchers: Iterable[str] = ()) -> list[str]:
    """Return the names of the ports of a platform with this many agents, and these launchers."""
    names = [f"gpu_agent_{number}_ops" for number in range(1, agents)]
    return [*PORTS, *names, *(f"launcher{launcher_suffix(name)}_ops" for name in launchers)]


def launcher_suffix(name: str) -> str:
    """Return what tells a launcher of this machine from the usual one."""
    return "" if name == LOCAL_LAUNCHER else f"_{name}"


class PlatformConfig(NamedTuple):
    """Addresses, ports and secrets of the local platform.

    `credentials` has the folder with the `.creds` file of each user of the bus. `agents` are the
    ids of the agents, each of which times the device at the same place in `devices`; `launchers`
    has those that each launcher may start, by its name. `postgres_dsns` has the role of each
    service, by its module. Without an `edge_token` there is no Discord and no edge.
    """

    folder: Path
    nats_url: str
    credentials: Path
    agents: Sequence[str]
    postgres_dsns: Mapping[str, str]
    ports: Mapping[str, int]
    operator_token: str
    reader_key: str
    edge_token: str = ""
    devices: Sequence[Device] = (Device(),)
    launchers: Mapping[str, Sequence[str]] = MappingProxyType({})

    def bus_settings(self, user: str) -> dict[str, str]:
        """Return the settings with which a process logs in to the bus as this user."""
        credentials = str(self.credentials_path(user))
        return {"NATS_URL": self.nats_url, "NATS_CREDENTIALS": credentials}

    def credentials_path(self, user: str) -> Path:
        """Return the file with which a user logs in."""
        return self.credentials / f"{user}.creds"

    def at(self, port: str) -> str:
        """Return the address of a named port."""
        return f"{HOST}:{self.ports[port]}"


class SimulatedUser(NamedTuple):
    """A user whom the simulated Discord begins with, and their role, "" for a participant.

    The id is constant, so that the user keeps their account when the platform starts again.
    """

    name: str
    id: str
    role: str = ""


SIM_USERS = (
    SimulatedUser("omar", "1300000000000000021", "admin"),
    SimulatedUser("mona", "1300000000000000022", "moderator"),
    SimulatedUser("cora", "1300000000000000023", "creator"),
    # The page shows the last user first.
    SimulatedUser("ada", "1300000000000000024"),
)


class Service(NamedTuple):
    """How to start a service, check its health and stop it."""

    name: str
    command: tuple[str, ...]
    environ: Mapping[str, str]
    ops_port: int
    address: str
    stop_s: float = SERVICE_STOP_S


def _build_service(
    config: PlatformConfig,
    name: str,
    specific: Mapping[str, str],
    suffix: str = "",
    user: str = "",
) -> Service:
    """Return a service; a `suffix` such as `-1` tells several of the same kind apart.

    It logs in to the bus as `user`, by default one of its own name.
    """
    module = name.replace("-", "_")
    prefix = f"WARPBOARD_{module.upper()}"
    port = f"{module}{suffix.replace('-', '_')}_ops"
    bus = config.bus_settings(user or name)
    settings = {**bus, **specific, "OPS_LISTEN": config.at(port)}
    return Service(
        name=f"{name}{suffix}",
        # -P: a folder here with the name of a module must not be imported instead.
        command=(sys.executable, "-P", "-m", module),
        environ={f"{prefix}_{key}": value for key, value in settings.items()},
        ops_port=config.ports[port],
        address=f"http://{specific.get('LISTEN') or settings['OPS_LISTEN']}",
        stop_s=AGENT_STOP_S if name == AGENT else SERVICE_STOP_S,
    )


def _build_agents(config: PlatformConfig) -> Iterator[Service]:
    """Return an agent for each device; several of them share this machine's cores evenly.

    A run is timed on the first core that its agent may use.
    """
    count = len(config.devices)
    cores, taskset = sorted(os.sched_getaffinity(0)), shutil.which("taskset")
    share = len(cores) // count if count > 1 and taskset is not None else 0
    for number, device in enumerate(config.devices):
        suffix = f"-{number}" if number else ""
        settings = {
            "ID": config.agents[number],
            "DATA": str(config.folder / f"agent{suffix}"),
        }
        if device.name != CPU_DEVICE:
            settings |= {"DEVICE": device.name, "GPU_INDEX": str(device.gpu_index)}
        agent = _build_service(config, AGENT, settings, suffix, f"agent-{config.agents[number]}")
        if share:
            own_cores = ",".join(map(str, cores[number * share : (number + 1) * share]))
            agent = agent._replace(command=("taskset", "-c", own_cores, *agent.command))
        yield agent


def _build_launchers(config: PlatformConfig) -> Iterator[Service]:
    for name, agents in config.launchers.items():
        suffix = launcher_suffix(name).replace("_", "-")
        paths = (str(config.credentials_path(f"agent-{agent}")) for agent in agents)
        settings = {
            "AGENT_CREDENTIALS": ":".join(paths),
            "DATA": str(config.folder / f"{LAUNCHER}{suffix}"),
        }
        if suffix:
            settings |= {"NAME": name, "KIND": LOCAL_LAUNCHER}
        service = _build_service(config, LAUNCHER, settings, suffix, f"{LAUNCHER}-{name}")
        command = (*service.command[:-1], "scheduler.launcher")
        yield service._replace(command=command, stop_s=LAUNCHER_STOP_S)


def local_services(config: PlatformConfig) -> Sequence[Service]:
    """Return the services in their order of start; no secret is an argument of a command."""
    ranker = {
        "POSTGRES_DSN": config.postgres_dsns["ranker"],
        "LISTEN": config.at("ranker"),
        "SEAL_KEY": str(config.folder / "seal.key"),
        "READER_KEY": config.reader_key,
    }
    ingest = {
        "POSTGRES_DSN": config.postgres_dsns["ingest"],
        "LISTEN": config.at("ingest"),
        "RANKER_URL": f"http://{config.at('ranker')}",
        "READER_KEY": config.reader_key,
        "OPERATOR_TOKEN": config.operator_token,
        # On a local machine participants are believed without a token.
        "NAMES_BELIEVED": "true",
        "WEB_SIGNUP": "true",
    }
    edge = {
        "POSTGRES_DSN": config.postgres_dsns["discord_edge"],
        "INGEST_URL": f"http://{config.at('ingest')}",
    }
    if config.edge_token:
        ingest["EDGE_TOKEN"] = edge["EDGE_TOKEN"] = config.edge_token
    return (
        _build_service(config, "ranker", ranker),
        _build_service(config, "ingest", ingest),
        _build_service(config, "scheduler", {}),
        *_build_agents(config),
        *_build_launchers(config),
        *([_build_service(config, EDGE, edge)] if config.edge_token else []),
    )


def with_discord(config: PlatformConfig) -> Sequence[Service]:
    """Return the services with a simulated Discord, which the edge uses like the real one."""
    url = f"http://{config.at('discord_sim')}"
    server = {
        "LISTEN": config.at("discord_sim"),
        "TOKEN": SIM_TOKEN,
        "GUILD": SIM_GUILD,
        "LOBBY": SIM_LOBBY,
        "ROLES": ",".join(
            f"{server_role}={identity}" + (":manage_guild" if name in SIM_MANAGERS else "")
            for name, (server_role, identity) in SIM_ROLES.items()
        ),
        "USERS": ",".join(
            f"{user.name}={user.id}" + (f":{SIM_ROLES[user.role][0]}" if user.role else "")
            for user in SIM_USERS
        ),
    }
    simulated = Service(
        name=SIM,
        command=(sys.executable, "-P", "-m", "discord_sim"),
        environ={f"WARPBOARD_DISCORD_SIM_{key}": value for key, value in server.items()},
        ops_port=config.ports["discord_sim"],
        address=f"{url}/sim/",
    )
    # Settings for a real Discord in the environment must not apply here.
    settings = {"TOKEN": SIM_TOKEN, "GUILD": SIM_GUILD, "API_URL": url, "CHANNELS": ""}
    settings |= {"LOBBY": SIM_LOBBY, "PUBLIC": "true", "PODIUMS": "true"}
    settings["ROLES"] = ",".join(f"{name}={role}" for name, (role, _) in SIM_ROLES.items())
    settings["PUBLIC_URL"] = f"http://{config.at('ingest')}"
    environ = {
        EDGE: {f"WARPBOARD_DISCORD_EDGE_{key}": value for key, value in settings.items()},
        "ingest": {"WARPBOARD_INGEST_EDGE_ROLES": ",".join(SIM_ROLES)},
    }
    services = [
        service._replace(environ={**service.environ, **environ.get(service.name, {})})
        for service in local_services(config)
    ]
    return (simulated, *services)


class ProcessRow(NamedTuple):
    """One process of the platform on this machine; `pid` is None while it does not run."""

    name: str
    state: str
    pid: int | None
    restarts: int
    address: str


def read_state(folder: Path) -> dict[str, Any]:
    """Return the last saved state; empty if there is none or it is unreadable."""
    try:
        state = json.loads((folder / STATE_FILE).read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        return {}
    return state if isinstance(state, dict) else {}


def write_state(folder: Path, state: Mapping[str, Any]) -> None:
    """Replace the state file, completely or not at all."""
    fresh = folder / f"{STATE_FILE}.new"
    fresh.write_text(json.dumps(state, indent=2) + "\n", encoding="utf-8")
    fresh.replace(folder / STATE_FILE)


def _is_free(port: object) -> bool:
    if not isinstance(port, int):
        return False
    with socket.socket() as probe:
        # Like the servers: a connection in TIME_WAIT does not block the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except (OSError, OverflowError):
            return False
    return True


class PortClaims:
    """Ports that no other platform of this user chooses while this one runs.

    Up to a minute may pass between the choice of a port and the moment when its service listens,
    and another platform would find it free. So each port is a byte of one file, locked by the
    process that chose it; the system releases the lock however the process ends.
    """

    def __init__(self) -> None:
        path = Path(tempfile.gettempdir(), f"warpboard-{os.getuid()}.ports")
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)

    def take(self, port: object) -> bool:
        """Return whether a port is free, and claim it."""
        if not isinstance(port, int) or not _is_free(port):
            return False
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Release all ports."""
        os.close(self._file)


def choose_ports(
    previous: Mapping[str, object], names: Iterable[str], take: Callable[[object], bool] = _is_free
) -> dict[str, int]:
    """Return a port for each name: the previous one, unless it is taken now."""
    chosen: dict[str, int] = {}
    for name in names:
        drawn = (PORT_MIN + secrets.randbelow(PORT_MAX - PORT_MIN) for _ in range(PORT_TRIES_MAX))
        for port in chain([previous.get(name)], drawn):
            if isinstance(port, int) and port not in chosen.values() and take(port):
                chosen[name] = port
                break
        else:
            raise Failed(f"no free port was found between {PORT_MIN} and {PORT_MAX}")
    return chosen


def describe(folder: Path) -> list[ProcessRow]:
    """Return the state of the processes of a folder's platform; empty if it never ran there."""
    rows = [ProcessRow(**row) for row in read_state(folder).get("processes", [])]
    if not processes.is_folder_locked(folder):
        return [row._replace(state="stopped", pid=None) for row in rows]
    if processes.lock_holder(folder) is None:  # It was killed, and its processes are ending.
        return [row._replace(state="ending") for row in rows]
    return rows


def down(folder: Path, within_s: float = DOWN_S_MAX) -> bool:
    """Stop the platform in a folder and wait until all of it is gone; false if it was not up.

    Raises Failed if part of it is still there after that time.
    """
    deadline, signalled_pid = time.monotonic() + within_s, 0
    was_up = processes.is_folder_locked(folder)
    while processes.is_folder_locked(folder):
        pid = processes.lock_holder(folder)
        if pid is not None and pid != signalled_pid:
            signalled_pid = pid
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        if time.monotonic() > deadline:
            raise Failed(f"{folder} is still in use {within_s:.0f} s after it was told to stop")
        time.sleep(DOWN_STEP_S)
    return was_up
