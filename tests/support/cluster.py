"""A cluster of three nats-servers on loopback."""

from collections.abc import Sequence
from pathlib import Path

from shared.bus_keys.login import BusLogin
from shared.bus_keys.permissions import MAINTENANCE
from shared.servers.nats import NatsServer
from shared.servers.process import load_password
from tests.support.waits import find_free_ports


class ClusterServer(NatsServer):
    """One server of a cluster, whose servers reach each other on the `routes`.

    All have the operator's keys of the folder around theirs, and one password of the routes.
    """

    def __init__(
        self, folder: Path, route: int, routes: Sequence[int], users: Sequence[str]
    ) -> None:
        super().__init__(folder, users=users, keys=folder.parent / "keys")
        self._route = route
        self._routes = routes

    def configuration(self) -> dict[str, object]:
        """Return the contents of the server's configuration file."""
        password = load_password(self.folder.parent / "route_password")
        cluster = {
            "name": "warpboard",
            "listen": f"127.0.0.1:{self._route}",
            "authorization": {"user": "route", "password": password},
            "routes": [
                f"nats://route:{password}@127.0.0.1:{port}"
                for port in self._routes
                if port != self._route
            ],
        }
        return super().configuration() | {"server_name": self.folder.name, "cluster": cluster}


class NatsCluster:
    """A cluster whose servers can be killed and restarted one by one, each in its own folder."""

    def __init__(self, folder: Path, users: Sequence[str] = ()) -> None:
        self._folder = folder
        self._users = users
        self.servers: list[ClusterServer] = []

    @property
    def url(self) -> str:
        """The URLs of all servers, as services expect them."""
        return ",".join(server.url for server in self.servers)

    @property
    def credentials(self) -> Path:
        """Where each user has its `.creds` file."""
        return self.servers[0].authority.credentials_folder

    def login(self, user: str = MAINTENANCE) -> BusLogin:
        """Return how a user logs in to any of the servers."""
        return BusLogin(self.url, self.servers[0].login(user).credentials)

    def start(self) -> str:
        """Start all and return their URLs. Errors: as `NatsServer.starting`."""
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
            ClusterServer(self._folder / name, port, ports, self._users)
            for name, port in zip(("n1", "n2", "n3"), ports, strict=True)
        ]
