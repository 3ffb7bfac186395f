"""Postgres servers with an address: a primary with its standby, and one that speaks TLS."""

import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from shared.servers.postgresql import Postgres, change_owner
from shared.servers.process import Launch
from tests.support.waits import free_port

SYSTEM = Path("/usr/lib/postgresql")


class NetworkPostgres(Postgres):
    """A Postgres that listens on loopback, with settings of its own."""

    def __init__(self, folder: Path, **settings: str) -> None:
        super().__init__(folder)
        self.port = free_port()
        self.settings: dict[str, str] = settings

    def launch(self, lock: int) -> Launch:
        """Return how to start it: the last of two equal options counts."""
        launch = super().launch(lock)
        settings: Mapping[str, str] = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            **self.settings,
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return replace(launch, command=(*launch.command, *options))

    @property
    def _socket(self) -> Path:
        return Path(self.address, f".s.PGSQL.{self.port}")

    def dsn_at(self, *ports: int, **parameters: str) -> str:
        """The DSN of the superuser at one or more ports of loopback, in this order."""
        ports = ports or (self.port,)
        hosts = {"host": ",".join(["127.0.0.1"] * len(ports)), "port": ",".join(map(str, ports))}
        return make_conninfo(self.dsn, **{**hosts, **parameters})

    def give(self, path: Path, mode: int) -> None:
        """Give a file or folder to the user that Postgres runs as."""
        path.chmod(mode)
        change_owner(path, self.identity)


class SystemPostgres(NetworkPostgres):
    """The system's Postgres, which is built with TLS, unlike that of the wheel."""

    def find_binaries(self) -> Path:
        """Return the newest installed one."""
        found = sorted(SYSTEM.glob("*/bin"), key=lambda path: int(path.parent.name))
        if not found:
            pytest.skip("needs the system's Postgres with TLS: apt-get install postgresql")
        return found[-1]


def start_standby(primary: NetworkPostgres, folder: Path, **settings: str) -> NetworkPostgres:
    """Copy a running primary into a folder, and start the copy as its standby."""
    standby = NetworkPostgres(folder, **settings)
    standby.folder.mkdir(mode=0o711, parents=True)
    password = standby.folder / "password"
    password.write_text((primary.folder / "password").read_text())
    program, target = str(primary.binaries / "pg_basebackup"), str(standby.data)
    command = (program, "-D", target, "-R", "-c", "fast", "-d", primary.dsn_at())
    subprocess.run(command, check=True, timeout=60)
    standby.identity = primary.identity
    standby.give(standby.data, 0o700)
    standby.start()
    return standby


def promote(standby: NetworkPostgres) -> None:
    """Make a standby the primary."""
    with psycopg.connect(standby.dsn_at(), autocommit=True) as connection:
        connection.execute("select pg_promote()")
