"""The services of the local platform, and the environment of each."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

HOST = "127.0.0.1"
PORTS = (
    *("nats", "ingest", "ingest_ops", "ranker", "ranker_ops", "scheduler_ops", "gpu_agent_ops"),
    *("discord_edge_ops", "discord_sim"),
)
AGENT = "gpu-agent"
AGENT_ID = "local"
EDGE = "discord-edge"
SIM = "discord-sim"
# Without these the platform accepts no submissions. Readers of the log and agents may be down for
# a while: their work waits in the log.
ESSENTIAL = frozenset({"nats-server", "ingest", "scheduler"})
# Constant, so that the edge knows it before the simulator is up.
SIM_GUILD = "1300000000000000000"
SIM_TOKEN = "simulated.bot.token"  # noqa: S105  (nobody's)
AGENT_STOP_S = 15.0
SERVICE_STOP_S = 10.0


class PlatformConfig(NamedTuple):
    """Addresses, ports and secrets of the local platform.

    Without an `edge_token` there is no Discord and no edge.
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
        """Return the address of a named port."""
        return f"{HOST}:{self.ports[port]}"


class Service(NamedTuple):
    """How to start a service, check its health and stop it."""

    name: str
    command: tuple[str, ...]
    environ: Mapping[str, str]
    ops_port: int
    address: str
    stop_s: float = SERVICE_STOP_S


def _build_service(config: PlatformConfig, name: str, specific: Mapping[str, str]) -> Service:
    module = name.replace("-", "_")
    prefix = f"WARPBOARD_{module.upper()}"
    settings = {"NATS_URL": config.nats_url, **specific, "OPS_LISTEN": config.at(f"{module}_ops")}
    return Service(
        name=name,
        # -P: a folder here with the name of a module must not be imported instead.
        command=(sys.executable, "-P", "-m", module),
        environ={f"{prefix}_{key}": value for key, value in settings.items()},
        ops_port=config.ports[f"{module}_ops"],
        address=f"http://{specific.get('LISTEN') or settings['OPS_LISTEN']}",
        stop_s=AGENT_STOP_S if name == AGENT else SERVICE_STOP_S,
    )


def local_services(config: PlatformConfig) -> Sequence[Service]:
    """Return the services in their order of start; passwords are passed by the environment only."""
    postgres = {"POSTGRES_DSN": config.postgres_dsn}
    ranker = {
        **postgres,
        "LISTEN": config.at("ranker"),
        "SEAL_KEY": str(config.folder / "seal.key"),
        # Webhooks may lead to this machine itself.
        "WEBHOOKS_LOCAL": "true",
        "READER_KEY": config.reader_key,
    }
    ingest = {
        **postgres,
        "LISTEN": config.at("ingest"),
        "RANKER_URL": f"http://{config.at('ranker')}",
        "READER_KEY": config.reader_key,
        "OPERATOR_TOKEN": config.operator_token,
        # On a local machine participants are believed without a token.
        "NAMES_BELIEVED": "true",
        "WEB_SIGNUP": "true",
    }
    edge = {**postgres, "INGEST_URL": f"http://{config.at('ingest')}"}
    if config.edge_token:
        ingest["EDGE_TOKEN"] = edge["EDGE_TOKEN"] = config.edge_token
    agent = {
        "ID": AGENT_ID,
        "DATA": str(config.folder / "agent"),
        "NATS_URL": config.agent_nats_url,
    }
    return (
        _build_service(config, "ranker", ranker),
        _build_service(config, "ingest", ingest),
        _build_service(config, "scheduler", {}),
        _build_service(config, AGENT, agent),
        *([_build_service(config, EDGE, edge)] if config.edge_token else []),
    )


def with_discord(config: PlatformConfig) -> Sequence[Service]:
    """Return the services with a simulated Discord, which the edge uses like the real one."""
    url = f"http://{config.at('discord_sim')}"
    listen = {"LISTEN": config.at("discord_sim"), "TOKEN": SIM_TOKEN, "GUILD": SIM_GUILD}
    simulated = Service(
        name=SIM,
        command=(sys.executable, "-P", "-m", "discord_sim"),
        environ={f"WARPBOARD_DISCORD_SIM_{key}": value for key, value in listen.items()},
        ops_port=config.ports["discord_sim"],
        address=f"{url}/sim/",
    )
    # Settings for a real Discord in the environment must not apply here.
    settings = {"TOKEN": SIM_TOKEN, "GUILD": SIM_GUILD, "API_URL": url, "CHANNELS": "", "ROLES": ""}
    settings |= {"PUBLIC": "true", "PODIUMS": "true"}
    settings["PUBLIC_URL"] = f"http://{config.at('ingest')}"
    edge_environ = {f"WARPBOARD_DISCORD_EDGE_{key}": value for key, value in settings.items()}
    services = local_services(config)
    edge = [
        service._replace(environ={**service.environ, **edge_environ})
        for service in services
        if service.name == EDGE
    ]
    return (simulated, *(service for service in services if service.name != EDGE), *edge)
