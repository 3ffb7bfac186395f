"""What the local platform writes down: its ports, which it keeps, and how its processes are."""

import fcntl
import json
import os
import secrets
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from shared.errors import Failed
from shared.servers import lock as locks
from warpboard.processes.services import HOST

FILE = "state.json"
DOWN_S_MAX = 90.0
DOWN_STEP_S = 0.05

# Below the range from which systems take the ports of outgoing connections, so that none of
# those sits on a service's port while that service is being restarted.
PORT_MIN, PORT_MAX = 20_000, 32_000
PORT_TRIES_MAX = 1000


class Row(NamedTuple):
    """One process in the table that `status` prints."""

    name: str
    state: str
    pid: int | None
    restarts: int
    address: str


def read(folder: Path) -> dict[str, Any]:
    """What was written last; empty if nothing was, or nothing that can be read."""
    try:
        found = json.loads((folder / FILE).read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def write(folder: Path, state: Mapping[str, Any]) -> None:
    """Replace what was written, whole or not at all."""
    fresh = folder / f"{FILE}.new"
    fresh.write_text(json.dumps(state, indent=2) + "\n", encoding="utf-8")
    fresh.replace(folder / FILE)


def _is_free(port: object) -> bool:
    if not isinstance(port, int):
        return False
    with socket.socket() as one:
        # As the servers do it: an ended connection in TIME_WAIT does not take the port.
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind((HOST, port))
        except (OSError, OverflowError):
            return False
    return True


class Claims:
    """Ports that no other platform of this person chooses while this one lives.

    Between the choice of a port and the moment when its service listens there, which may be a
    minute, another platform that starts would find it free. So each port is a byte of one file,
    locked by the process that chose it; the system lets it go, however the process ends.
    """

    def __init__(self) -> None:
        path = Path(tempfile.gettempdir(), f"warpboard-{os.getuid()}.ports")
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)

    def take(self, port: object) -> bool:
        """Whether a port is free, and nobody's but ours from now on."""
        if not isinstance(port, int) or not _is_free(port):
            return False
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Let them all go."""
        os.close(self._file)


Take = Callable[[object], bool]


def _choose(taken: Iterable[int], take: Take) -> int:
    for _ in range(PORT_TRIES_MAX):
        port = PORT_MIN + secrets.randbelow(PORT_MAX - PORT_MIN)
        if port not in taken and take(port):
            return port
    raise Failed(f"no free port was found between {PORT_MIN} and {PORT_MAX}")


def ports(
    kept: Mapping[str, object], names: Iterable[str], take: Take = _is_free
) -> dict[str, int]:
    """A port for each name: the one kept from the last time, unless it is taken now."""
    found: dict[str, int] = {}
    for name in names:
        port = kept.get(name)
        is_kept = isinstance(port, int) and port not in found.values() and take(port)
        found[name] = port if isinstance(port, int) and is_kept else _choose(found.values(), take)
    return found


def describe(folder: Path) -> list[Row]:
    """How the processes of the platform in a folder are; empty if it never ran there."""
    rows = [Row(**row) for row in read(folder).get("processes", [])]
    if not locks.is_held(folder):
        return [row._replace(state="stopped", pid=None) for row in rows]
    if locks.holder(folder) is None:  # It was killed, and what it started is ending.
        return [row._replace(state="ending") for row in rows]
    return rows


def down(folder: Path, within_s: float = DOWN_S_MAX) -> bool:
    """Stop the platform in a folder and wait until all of it is gone; False if it was not up.

    Errors: Failed if something of it was still there after that time.
    """
    until, told = time.monotonic() + within_s, 0
    was_up = locks.is_held(folder)
    while locks.is_held(folder):
        pid = locks.holder(folder)
        if pid is not None and pid != told:
            told = pid
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        if time.monotonic() > until:
            raise Failed(f"{folder} is still in use {within_s:.0f} s after it was told to stop")
        time.sleep(DOWN_STEP_S)
    return was_up
