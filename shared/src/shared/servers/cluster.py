"""Three nats-servers on one machine that keep everything three times: for tests and rehearsals."""

import socket
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from shared.servers.nats import Member, NatsServer

SIZE = 3


class NatsCluster:
    """A cluster of which any one server may be killed and started again, each in its own folder."""

    def __init__(self, folder: Path, agents: Sequence[str] = ()) -> None:
        self._folder = folder
        self._agents = agents
        self.servers: list[NatsServer] = []

    @property
    def url(self) -> str:
        """All servers in one URL, as every service takes it."""
        return ",".join(server.url for server in self.servers)

    def agent_url(self, agent: str) -> str:
        """The same for one of the agents."""
        return ",".join(server.agent_url(agent) for server in self.servers)

    def start(self) -> str:
        """Start all and return the URL, passwords and all. Errors: as `NatsServer.starting`."""
        if not self.servers:
            self.servers = self._members()
        for server in self.servers:
            server.start()
        return self.url

    def server(self, name: str) -> NatsServer:
        """The server of a name, such as the leader that a stream tells."""
        (found,) = (one for one in self.servers if one.member and one.member.name == name)
        return found

    def stop(self) -> None:
        """Stop all within their limits."""
        for server in reversed(self.servers):
            server.stop()

    def _members(self) -> list[NatsServer]:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        ports = free_ports(SIZE)
        return [
            NatsServer(
                self._folder / name,
                agents=self._agents,
                member=Member(name, port, tuple(one for one in ports if one != port), self._folder),
            )
            for name, port in zip(("n1", "n2", "n3"), ports, strict=True)
        ]


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody has now; a server must know the others' before they start."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
