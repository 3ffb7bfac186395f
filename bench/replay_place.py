"""Both servers of our own, and single services beside them, started as `up` does."""

import json
import os
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from shared.database.postgres import prepare
from shared.servers.nats import NatsServer
from shared.servers.postgresql import ROLES, Postgres
from warpboard.processes.services import (
    HOST,
    PORTS,
    PlatformConfig,
    Service,
    choose_ports,
    local_services,
)

ANSWER_S_MAX = 20.0
STOP_S_MAX = 30.0


class Running(NamedTuple):
    """A service that was started, and when."""

    process: "subprocess.Popen[bytes]"
    service: Service
    began: float


class Ground:
    """Both servers, empty, in a folder, and where services will be, by a table of them."""

    def __init__(
        self,
        folder: Path,
        table: Callable[[PlatformConfig], Sequence[Service]] = local_services,
        users: Sequence[str] = (),
    ) -> None:
        self.folder = folder
        self.table = table
        if os.geteuid() == 0:
            folder.chmod(0o711)  # Postgres runs as nobody and must walk here.
        self.nats, self.postgres = (
            NatsServer(folder / "nats", users=users),
            Postgres(folder / "postgres"),
        )
        self.nats.start()
        self.postgres.start()
        # No agent is started here.
        prepare(self.postgres.dsn, {})
        credentials = self.nats.authority.credentials_folder
        dsns = dict.fromkeys(ROLES, self.postgres.dsn)
        servers = self.nats.url, credentials, ["local"], dsns
        # Nobody listens.
        self.place = PlatformConfig(
            folder,
            *servers,
            choose_ports({}, PORTS),
            "no-token-of-operators",
            "a-key-of-readers",
            "a-token-of-the-edge",
        )

    def stop(self) -> None:
        """Stop both."""
        self.postgres.stop()
        self.nats.stop()

    def url(self, name: str) -> str:
        """Where a service answers."""
        return f"http://{HOST}:{self.place.ports[name]}"

    def find(self, name: str) -> Service:
        """How a service is started."""
        return next(one for one in self.table(self.place) if one.name == name)

    @contextmanager
    def service(self, name: str) -> Iterator[Running]:
        """A service, from its start on until it is stopped."""
        found = self.find(name)
        environ = {**os.environ, **found.environ}
        began = time.monotonic()
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                found.command, env=environ, stdout=log, stderr=log, start_new_session=True
            )
        try:
            yield Running(process, found, began)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(STOP_S_MAX)

    def command(self, name: str, *arguments: str) -> "Cost":
        """What another command of a service costs."""
        found = self.find(name)
        return cost([*found.command, *arguments], {**os.environ, **found.environ})


class Cost(NamedTuple):
    """What a command took: seconds, those of the processor, and its peak memory."""

    s: float
    cpu_s: float
    mib: float


def cost(command: Sequence[str], environ: Mapping[str, str]) -> Cost:
    """Run a command to its good end, and say what it cost."""
    with tempfile.TemporaryFile() as out:
        began = time.monotonic()
        process = subprocess.Popen(command, env=environ, stdout=out, stderr=out)
        _, status, usage = os.wait4(process.pid, 0)
        took_s = time.monotonic() - began
        out.seek(0)
        if os.waitstatus_to_exitcode(status) != 0:
            raise SystemExit(f"{' '.join(command)} failed: {out.read().decode()[-2000:]}")
    return Cost(took_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def ask(url: str) -> Any:
    """A JSON answer, None where there is none."""
    try:
        with urllib.request.urlopen(url, timeout=ANSWER_S_MAX) as answer:  # noqa: S310  (ours)
            return json.loads(answer.read())
    except (urllib.error.URLError, ConnectionError, TimeoutError, ValueError):
        return None
