"""What this machine can confine a worker by: every wall is tried, none is assumed."""

import json
import os
import platform
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from harness.sandbox import (
    bubblewrap,
    cgroup_places,
    channel,
    interpreter,
    jail,
    landlock,
    linux,
    mends,
    root,
    seccomp,
)
from harness.sandbox.mends import Host, Missing
from harness.sandbox.spec import WALLS, WORKER_UID, Limits, Spec, level_of, walls_at

_TRIAL_S_MAX = 10.0
_REASON_BYTES_MAX = 2000


@dataclass(frozen=True)
class Isolation:
    """The walls that can be built here, the level they make, and why the others are missing.

    `has_bubblewrap` says whether the second launcher works; if not, `launchers` says why.
    """

    walls: tuple[str, ...]
    level: str
    missing: tuple[Missing, ...]
    kernel: str
    landlock: int
    has_bubblewrap: bool
    launchers: tuple[Missing, ...] = ()

    def lowered(self, level: str) -> "Isolation":
        """The same machine, asked for no more than a level."""
        walls = walls_at(level, self.walls)
        return replace(self, walls=walls, level=level_of(walls))

    def minus(self, walls: Collection[str]) -> "Isolation":
        """The same machine without some walls: for tests that these walls hold something back."""
        kept = tuple(wall for wall in self.walls if wall not in walls)
        return replace(self, walls=kept, level=level_of(kept))

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> "Isolation":
        """The isolation in a line that to_json made."""
        body: dict[str, Any] = json.loads(line)
        for name in ("missing", "launchers"):
            body[name] = tuple(Missing(**one) for one in body[name])
        return cls(**body | {"walls": tuple(body["walls"])})


def probe() -> Isolation:
    """Tries every wall. It forks, so it is to be called before there are threads."""
    found = list(_found())
    missing = tuple(one for one in found if one.wall in WALLS)
    walls = tuple(wall for wall in WALLS if wall not in {one.wall for one in missing})
    launchers = tuple(_of_bubblewrap(walls))
    return Isolation(
        walls=walls,
        level=level_of(walls),
        missing=missing,
        kernel=platform.release(),
        landlock=landlock.abi(),
        has_bubblewrap=not launchers,
        launchers=launchers,
    )


def _found() -> Iterator[Missing]:
    host = Host(os.geteuid())
    namespaces = _trial(_enter_namespaces)
    if namespaces:
        yield mends.of_namespaces(host, namespaces)
    uid = _trial(_become_worker) if host.is_root else "not root"
    if uid:
        yield mends.of_uid(host, uid)
    elif namespaces and (path := _trial(_reach_interpreter)):
        yield mends.of_reach(path)
    if reason := _trial(seccomp.install):
        yield mends.of_seccomp(reason)
    if (abi := landlock.abi()) < landlock.ABI_MIN:
        yield mends.of_landlock(abi, landlock.ABI_MIN)
    held = cgroup_places.find().walls()
    for wall in ("memory", "pids", "freezer"):
        if wall not in held:
            yield mends.of_group(host, wall)


def _enter_namespaces() -> None:
    """The same steps as a box's, to the end: any of them may be what is forbidden."""
    with tempfile.TemporaryDirectory() as folder:
        spec = Spec(("namespaces",), Limits(), submission=folder, main="")
        jail.leave_pid_namespace()
        if reason := _trial(lambda: jail.build(spec)):
            raise OSError(reason)


def _become_worker() -> None:
    linux.empty_bounding_set()
    linux.become(WORKER_UID)


def _reach_interpreter() -> None:
    """Errors: OSError, whose text is the first path that is out of a worker's reach."""
    folders = [*root.SYSTEM[:1], *interpreter.folders()]
    linux.become(WORKER_UID)
    for folder in folders:
        if not os.access(folder, os.R_OK | os.X_OK):
            raise OSError(folder)


def _of_bubblewrap(walls: tuple[str, ...]) -> Iterator[Missing]:
    if "namespaces" in walls and (reason := _trial(lambda: _wrap(walls))):
        yield mends.of_launcher(reason)


def _wrap(walls: tuple[str, ...]) -> None:
    """Has bubblewrap build those of the walls that it builds, around a program that does nothing.

    Errors: OSError, with the last that it said.
    """
    with tempfile.TemporaryDirectory() as folder:
        spec = Spec(walls, Limits(), submission=folder, main="")
        # In a file of its own: on the same stream it would hide what went wrong.
        record = os.memfd_create("record", 0)
        program = bubblewrap.command(spec, [sys.executable, "-I", "-c", ""], record)
        done = subprocess.run(
            program, close_fds=False, capture_output=True, timeout=_TRIAL_S_MAX, check=False
        )
    if done.returncode != 0:
        raise OSError(done.stderr.decode(errors="replace").strip().rpartition("\n")[2])


def _trial(step: Callable[[], object]) -> str:
    """Why a step fails in a process of its own; "" if it does not."""
    heard, said = os.pipe()
    pid = os.fork()
    if pid == 0:
        _try(step, said)
    os.close(said)
    reason = _hear(heard, time.monotonic() + _TRIAL_S_MAX)
    os.close(heard)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return reason


def _try(step: Callable[[], object], said: int) -> None:
    reason = ""
    try:
        step()
    except Exception as error:  # noqa: BLE001  (whatever it was, it is why this does not work)
        reason = channel.worded(error)
    finally:
        os.write(said, f"{reason}\0".encode(errors="replace")[:_REASON_BYTES_MAX])
        os._exit(0)


def _hear(pipe: int, until: float) -> str:
    said = b""
    while not said.endswith(b"\0"):
        left_s = max(0.0, until - time.monotonic())
        if not select.select([pipe], [], [], left_s)[0]:
            return f"it did not answer within {_TRIAL_S_MAX} s"
        chunk = os.read(pipe, _REASON_BYTES_MAX)
        if not chunk:
            return "the kernel killed the trial"
        said += chunk
    return said[:-1].decode(errors="replace")
