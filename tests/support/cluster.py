"""A cluster of three nats-servers on loopback."""

from collections.abc import Sequence
from pathlib import Path

from shared.servers.nats import USER, NatsServer
from tests.support.waits import find_free_ports


class ClusterServer(NatsServer):
    """One server of a cluster, whose servers reach each other on the `routes`.

    The folder `secrets` has the passwords, which are the same on all servers.
    """

    def __init__(
        self, folder: Path, route: int, routes: Sequence[int], agents: Sequence[str]
    ) -> None:
        super().__init__(folder, agents=agents)
        self.secrets = folder.parent
        self._route = route
        self._routes = routes

    def configuration(self) -> dict[str, object]:
        """Return the contents of the server's configuration file."""
        settings = super().configuration()
        account = {"user": USER, "password": self._password}
        cluster = {
            "name": "warpboard",
            "listen": f"127.0.0.1:{self._route}",
            "authorization": account,
            "routes": [
                f"nats://{USER}:{self._password}@127.0.0.1:{port}"
                for port in self._routes
                if port != self._route
            ],
            # Clients know all servers from their URL; advertised URLs have no password.
            "no_advertise": True,
        }
        return settings | {"server_name": self.folder.name, "cluster": cluster}


class NatsCluster:
    """A cluster whose servers can be killed and restarted one by one, each in its own folder."""

    def __init__(self, folder: Path, agents: Sequence[str] = ()) -> None:
        self._folder = folder
        self._agents = agents
        self.servers: list[ClusterServer] = []

    @property
    def url(self) -> str:
        """The URLs of all servers, as services expect them."""
        return ",".join(server.url for server in self.servers)

    def agent_url(self, agent: str) -> str:
        """Return the URLs of all servers for one of the agents."""
        return ",".join(server.agent_url(agent) for server in self.servers)

    def start(self) -> str:
        """Start all and return the URL with passwords. Errors: as `NatsServer.starting`."""
        if not self.servers:
            self.servers = self._create_servers()
        for server in self.servers:
            server.start()
        return self.url

    def server(self, name: str) -> ClusterServer:
        """Return the server with this name, such as a stream's leader."""
        (match,) = (server for server in self.servers if server.folder.name == name)
        return match

    def stop(self) -> None:
        """Stop all within their limits."""
        for server in reversed(self.servers):
            server.stop()

    def _create_servers(self) -> list[ClusterServer]:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        ports = find_free_ports(3)
        return [
            ClusterServer(self._folder / name, port, ports, self._agents)
            for name, port in zip(("n1", "n2", "n3"), ports, strict=True)
        ]
