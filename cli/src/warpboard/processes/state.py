"""The state file of the local platform: its ports, and the state of its processes."""

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
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from shared.errors import Failed
from shared.servers import lock as locks
from warpboard.processes.services import HOST

FILE = "state.json"
DOWN_S_MAX = 90.0
DOWN_STEP_S = 0.05

# Below the range of ports for outgoing connections, so that none of these takes a service's port
# while that service restarts.
PORT_MIN, PORT_MAX = 20_000, 32_000
PORT_TRIES_MAX = 1000


class ProcessRow(NamedTuple):
    """One process of the platform on this machine; `pid` is None while it does not run."""

    name: str
    state: str
    pid: int | None
    restarts: int
    address: str


def read_state(folder: Path) -> dict[str, Any]:
    """Return the last saved state; empty if there is none or it is unreadable."""
    try:
        state = json.loads((folder / FILE).read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        return {}
    return state if isinstance(state, dict) else {}


def write_state(folder: Path, state: Mapping[str, Any]) -> None:
    """Replace the state file, completely or not at all."""
    fresh = folder / f"{FILE}.new"
    fresh.write_text(json.dumps(state, indent=2) + "\n", encoding="utf-8")
    fresh.replace(folder / FILE)


def _is_free(port: object) -> bool:
    if not isinstance(port, int):
        return False
    with socket.socket() as probe:
        # Like the servers: a connection in TIME_WAIT does not block the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except (OSError, OverflowError):
            return False
    return True


class PortClaims:
    """Ports that no other platform of this user chooses while this one runs.

    Up to a minute may pass between the choice of a port and the moment when its service listens,
    and another platform would find it free. So each port is a byte of one file, locked by the
    process that chose it; the system releases the lock however the process ends.
    """

    def __init__(self) -> None:
        path = Path(tempfile.gettempdir(), f"warpboard-{os.getuid()}.ports")
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)

    def take(self, port: object) -> bool:
        """Return whether a port is free, and claim it."""
        if not isinstance(port, int) or not _is_free(port):
            return False
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Release all ports."""
        os.close(self._file)


def choose_ports(
    previous: Mapping[str, object], names: Iterable[str], take: Callable[[object], bool] = _is_free
) -> dict[str, int]:
    """Return a port for each name: the previous one, unless it is taken now."""
    chosen: dict[str, int] = {}
    for name in names:
        drawn = (PORT_MIN + secrets.randbelow(PORT_MAX - PORT_MIN) for _ in range(PORT_TRIES_MAX))
        for port in chain([previous.get(name)], drawn):
            if isinstance(port, int) and port not in chosen.values() and take(port):
                chosen[name] = port
                break
        else:
            raise Failed(f"no free port was found between {PORT_MIN} and {PORT_MAX}")
    return chosen


def describe(folder: Path) -> list[ProcessRow]:
    """Return the state of the processes of a folder's platform; empty if it never ran there."""
    rows = [ProcessRow(**row) for row in read_state(folder).get("processes", [])]
    if not locks.is_held(folder):
        return [row._replace(state="stopped", pid=None) for row in rows]
    if locks.holder(folder) is None:  # It was killed, and its processes are ending.
        return [row._replace(state="ending") for row in rows]
    return rows


def down(folder: Path, within_s: float = DOWN_S_MAX) -> bool:
    """Stop the platform in a folder and wait until all of it is gone; false if it was not up.

    Raises Failed if part of it is still there after that time.
    """
    deadline, signalled_pid = time.monotonic() + within_s, 0
    was_up = locks.is_held(folder)
    while locks.is_held(folder):
        pid = locks.holder(folder)
        if pid is not None and pid != signalled_pid:
            signalled_pid = pid
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        if time.monotonic() > deadline:
            raise Failed(f"{folder} is still in use {within_s:.0f} s after it was told to stop")
        time.sleep(DOWN_STEP_S)
    return was_up
