"""Which services the local platform has, and what each is told at its start."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

HOST = "127.0.0.1"
PORTS = (
    "nats",
    "ingest",
    "ingest_ops",
    "ranker",
    "ranker_ops",
    "scheduler_ops",
    "gpu_agent_ops",
    "discord_edge_ops",
    "discord_sim",
)
AGENT = "gpu-agent"
AGENT_ID = "local"
EDGE = "discord-edge"
SIM = "discord-sim"
# Without these nothing is taken in. The others, readers of the log and agents, may be away for a
# while: what they have not done waits in the log.
ESSENTIAL = frozenset({"nats-server", "ingest", "scheduler"})
# The same at every start, so that the edge knows it before the simulator is there.
SIM_GUILD = "1300000000000000000"
SIM_TOKEN = "simulated.bot.token"  # noqa: S105  (nobody's)
AGENT_STOP_S = 15.0
SERVICE_STOP_S = 10.0


class Place(NamedTuple):
    """Where the servers are, which ports are free, what operators and the edge show to ingest.

    Without an `edge_token` nobody comes by Discord, and there is no edge.
    """

    folder: Path
    nats_url: str
    agent_nats_url: str
    postgres_dsn: str
    ports: Mapping[str, int]
    operator_token: str
    reader_key: str
    edge_token: str = ""

    def at(self, port: str) -> str:
        """The address of a named port."""
        return f"{HOST}:{self.ports[port]}"


class Service(NamedTuple):
    """How one service is started, asked for its health and given its time to stop."""

    name: str
    command: tuple[str, ...]
    environ: Mapping[str, str]
    ops_port: int
    address: str
    stop_s: float = SERVICE_STOP_S


def _service(place: Place, name: str, given: Mapping[str, str]) -> Service:
    """A service of ours: its module, and its settings under its own prefix."""
    module = name.replace("-", "_")
    prefix = f"WARPBOARD_{module.upper()}"
    settings = {"NATS_URL": place.nats_url, **given, "OPS_LISTEN": place.at(f"{module}_ops")}
    return Service(
        name=name,
        # -P: a folder here that has the name of a module must not stand in for it.
        command=(sys.executable, "-P", "-m", module),
        environ={f"{prefix}_{key}": value for key, value in settings.items()},
        ops_port=place.ports[f"{module}_ops"],
        address=f"http://{given.get('LISTEN') or settings['OPS_LISTEN']}",
        stop_s=AGENT_STOP_S if name == AGENT else SERVICE_STOP_S,
    )


def local_services(place: Place) -> Sequence[Service]:
    """The services in the order of their start; passwords go by the environment alone."""
    postgres = {"POSTGRES_DSN": place.postgres_dsn}
    seal_key = str(place.folder / "seal.key")
    ranker = {**postgres, "LISTEN": place.at("ranker"), "SEAL_KEY": seal_key}
    # Webhooks of one's own machine may lead to it.
    ranker["WEBHOOKS_LOCAL"] = "true"
    ranker["READER_KEY"] = place.reader_key
    ranker_url = f"http://{place.at('ranker')}"
    ingest = {
        **postgres,
        "LISTEN": place.at("ingest"),
        "RANKER_URL": ranker_url,
        "READER_KEY": place.reader_key,
        "OPERATOR_TOKEN": place.operator_token,
        # On one's own machine a participant is who they say, without a token.
        "NAMES_BELIEVED": "true",
        "WEB_SIGNUP": "true",
    }
    edge = {**postgres, "INGEST_URL": f"http://{place.at('ingest')}"}
    if place.edge_token:
        ingest["EDGE_TOKEN"] = edge["EDGE_TOKEN"] = place.edge_token
    agent = {
        "ID": AGENT_ID,
        "DATA": str(place.folder / "agent"),
        "NATS_URL": place.agent_nats_url,
    }
    return (
        _service(place, "ranker", ranker),
        _service(place, "ingest", ingest),
        _service(place, "scheduler", {}),
        _service(place, AGENT, agent),
        *([_service(place, EDGE, edge)] if place.edge_token else []),
    )


def with_discord(place: Place) -> Sequence[Service]:
    """The services with a simulated Discord, which the edge takes for the real one."""
    url = f"http://{place.at('discord_sim')}"
    listen = {"LISTEN": place.at("discord_sim"), "TOKEN": SIM_TOKEN, "GUILD": SIM_GUILD}
    simulated = Service(
        name=SIM,
        command=(sys.executable, "-P", "-m", "discord_sim"),
        environ={f"WARPBOARD_DISCORD_SIM_{key}": value for key, value in listen.items()},
        ops_port=place.ports["discord_sim"],
        address=f"{url}/sim/",
    )
    # Whatever the environment says of a real one is not for this one.
    said = {"TOKEN": SIM_TOKEN, "GUILD": SIM_GUILD, "API_URL": url, "CHANNELS": "", "ROLES": ""}
    said |= {"PUBLIC": "true", "PODIUMS": "true"}
    said["PUBLIC_URL"] = f"http://{place.at('ingest')}"
    told = {f"WARPBOARD_DISCORD_EDGE_{key}": value for key, value in said.items()}
    services = local_services(place)
    edge = [one._replace(environ={**one.environ, **told}) for one in services if one.name == EDGE]
    return (simulated, *(one for one in services if one.name != EDGE), *edge)
