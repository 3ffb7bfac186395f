"""Finds out how this machine can confine a worker, by trying every wall.

For a wall that cannot be built it says why, and what an operator can do about it. As a program, it
prints the result as one line of JSON.
"""

import json
import os
import platform
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from harness.sandbox import bubblewrap, fork_entry, image, linux, realtime, seccomp, walls
from harness.sandbox.box import (
    WALLS,
    WORKER_UID,
    BoxSpec,
    Limits,
    describe_error,
    isolation_level,
    walls_at_level,
)
from harness.sandbox.host import find_cgroup_parents
from harness.sandbox.image import ImageStore

_RUN_AS_ROOT = "run the agent as root: it drops root before any foreign code runs"
_CONTAINER = (
    "docker run --cap-add SYS_ADMIN --security-opt seccomp=unconfined "
    "--security-opt apparmor=unconfined --security-opt systempaths=unconfined, "
    "or a virtual machine for each trust domain"
)
_GROUPS_IN_CONTAINER = "docker run --cgroupns private -v /sys/fs/cgroup:/sys/fs/cgroup:rw"
_DELEGATE = (
    "set Delegate=yes in the agent's systemd unit, "
    "or start by systemd-run --user --scope -p Delegate=yes"
)
_CGROUP_KERNEL = "boot a kernel with control groups (cgroup_enable=memory on some boards)"
_USER_NAMESPACES = (
    ("proc/sys/user/max_user_namespaces", "0", "sysctl -w user.max_user_namespaces=15000"),
    (
        "proc/sys/kernel/unprivileged_userns_clone",
        "0",
        "sysctl -w kernel.unprivileged_userns_clone=1",
    ),
    (
        "proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or run the agent as root",
    ),
)
_PRIORITY = "real-time"
_PRIORITY_IN_CONTAINER = "docker run --ulimit rtprio=1, or --cap-add SYS_NICE"
_PRIORITY_OF_USER = (
    "set LimitRTPRIO=1 in the agent's systemd unit, "
    "or a line `USER - rtprio 1` in /etc/security/limits.conf, or run the agent as root"
)
_CONTAINERS = (".dockerenv", "run/.containerenv", "var/run/secrets/kubernetes.io")
_GROUPS = "sys/fs/cgroup"

_TRIAL = "trial"
_TRIAL_S_MAX = 10.0
_REASON_BYTES_MAX = 2000


@dataclass(frozen=True)
class MissingWall:
    """A wall that cannot be built here: why, and what an operator can do."""

    wall: str
    reason: str
    fix: str


@dataclass(frozen=True)
class HostMachine:
    """The examined machine: the user, and the folder below which its files lie."""

    uid: int
    root: Path = Path("/")

    @property
    def is_root(self) -> bool:
        """Whether the process runs as root."""
        return self.uid == 0

    def says(self, file: str) -> str:
        """Return the content of a small file; "" if it does not exist."""
        try:
            return (self.root / file).read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return ""

    def is_contained(self) -> bool:
        """Return whether this looks like a container, whose runtime removes rights."""
        is_filtered = "Seccomp:\t2" in self.says("proc/self/status")
        return is_filtered or any((self.root / mark).exists() for mark in _CONTAINERS)


def explain_namespaces(host: HostMachine, reason: str) -> MissingWall:
    """Explain why a box cannot have its own namespaces."""
    if not host.is_root:
        for file, blocking_value, fix in _USER_NAMESPACES:
            if host.says(file) == blocking_value:
                return MissingWall("namespaces", f"{reason} (/{file} is {blocking_value})", fix)
        if "proc" in reason:
            fix = "docker run --security-opt systempaths=unconfined, or run the agent as root"
            return MissingWall("namespaces", f"{reason} (parts of /proc are masked)", fix)
    if "5.12" in reason:
        return MissingWall("namespaces", reason, "boot Linux 5.12 or later")
    if host.is_contained():
        return MissingWall("namespaces", f"{reason} (this container lacks the right)", _CONTAINER)
    return MissingWall("namespaces", reason, _RUN_AS_ROOT)


def explain_image(host: HostMachine, reason: str) -> MissingWall:
    """Explain why a box cannot have a root of its own, but shows the machine's folders."""
    if image.PARENT in reason:
        return MissingWall("image", reason, f"mount -t tmpfs tmpfs {image.PARENT}")
    if host.is_root:
        return MissingWall("image", reason, "boot Linux 6.5 or later with overlayfs")
    fix = f"boot Linux 6.16 or later with overlayfs, or {_RUN_AS_ROOT}"
    return MissingWall("image", reason, fix)


def explain_uid(host: HostMachine, reason: str) -> MissingWall:
    """Explain why a worker cannot run as another user."""
    if not host.is_root:
        return MissingWall("uid", f"uid {host.uid} cannot become another user", _RUN_AS_ROOT)
    fix = "docker run --cap-add SETUID --cap-add SETGID --cap-add SETPCAP"
    return MissingWall("uid", reason, fix)


def explain_reach(path: str) -> MissingWall:
    """Explain why a worker that is another user cannot import, where nothing can be mounted."""
    return MissingWall(
        "uid",
        f"uid {WORKER_UID} cannot reach {path}, and there are no namespaces to mount it in",
        f"chmod o+x each folder above {path}, or install Python below /usr or /opt",
    )


def explain_seccomp(reason: str) -> MissingWall:
    """Explain why a seccomp filter cannot be loaded."""
    return MissingWall(
        "seccomp", reason, "boot a kernel with CONFIG_SECCOMP_FILTER on x86-64 or arm64"
    )


def explain_landlock(abi: int, needed: int) -> MissingWall:
    """Explain why Landlock cannot replace namespaces."""
    if abi == 0:
        fix = "boot Linux 6.12 or later with landlock in its lsm= list"
        return MissingWall("landlock", "this kernel has no Landlock, or forbids it", fix)
    fix = "boot Linux 6.12 or later"
    return MissingWall("landlock", f"Landlock {abi} is too old, at least {needed} is needed", fix)


def explain_group(host: HostMachine, wall: str) -> MissingWall:
    """Explain why no control group can enforce memory, pids or the freezer."""
    controller = "control group" if wall == "freezer" else f"{wall} controller"
    reason = f"no {controller} can be created and written to here"
    groups = host.root / _GROUPS
    if not groups.is_dir() or not any(groups.iterdir()):
        return MissingWall(wall, "no control groups are mounted", _CGROUP_KERNEL)
    if not host.is_root:
        return MissingWall(wall, reason, f"{_DELEGATE}; or {_RUN_AS_ROOT}")
    if host.is_contained():
        return MissingWall(wall, reason, _GROUPS_IN_CONTAINER)
    if (groups / "cgroup.controllers").exists():
        return MissingWall(wall, f"{reason} (pure v2)", _DELEGATE)
    return MissingWall(wall, reason, _CGROUP_KERNEL)


def explain_priority(host: HostMachine, reason: str) -> MissingWall:
    """Explain why the referee has no real-time priority while a call is timed."""
    fix = "boot a kernel without CONFIG_RT_GROUP_SCHED"
    if host.is_contained():
        fix = _PRIORITY_IN_CONTAINER
    elif not host.is_root:
        fix = _PRIORITY_OF_USER
    return MissingWall(_PRIORITY, reason, fix)


def explain_launcher(reason: str) -> MissingWall:
    """Explain why the second launcher cannot build the walls that the first one can."""
    if not reason.endswith("is not installed"):
        fix = "bubblewrap 0.8 or later, and Python below /usr or /opt; the zygote needs neither"
        return MissingWall("bubblewrap", reason, fix)
    package = "util-linux" if reason.startswith("setpriv") else "bubblewrap"
    return MissingWall("bubblewrap", reason, f"apt install {package} (bubblewrap 0.8 or later)")


@dataclass(frozen=True)
class Isolation:
    """The walls that can be built here, the level they make, and why others are missing.

    `has_bubblewrap` says whether the second launcher works; if not, `launchers` says why.
    `priorities` says why the referee cannot have a real-time priority; it is empty if it can.
    """

    walls: tuple[str, ...]
    level: str
    missing: tuple[MissingWall, ...]
    kernel: str
    landlock: int
    has_bubblewrap: bool
    launchers: tuple[MissingWall, ...] = ()
    priorities: tuple[MissingWall, ...] = ()

    def lowered(self, level: str) -> "Isolation":
        """Return the same machine limited to a level."""
        walls = walls_at_level(level, self.walls)
        return replace(self, walls=walls, level=isolation_level(walls))

    def minus(self, walls: Collection[str]) -> "Isolation":
        """Return the same machine without some walls, to test what these walls prevent."""
        remaining = tuple(wall for wall in self.walls if wall not in walls)
        return replace(self, walls=remaining, level=isolation_level(remaining))

    def to_json(self) -> str:
        """Return one line of JSON."""
        return json.dumps(asdict(self))


def probe_isolation() -> Isolation:
    """Try every wall. It forks, so call it before there are threads."""
    all_missing = list(_find_missing())
    missing = tuple(wall for wall in all_missing if wall.wall in WALLS)
    walls = tuple(wall for wall in WALLS if wall not in {wall.wall for wall in missing})
    launchers: tuple[MissingWall, ...] = ()
    if "namespaces" in walls and (reason := _run_trial(lambda: _try_bubblewrap(walls))):
        launchers = (explain_launcher(reason),)
    level, kernel, abi = isolation_level(walls), platform.release(), linux.landlock_version()
    priorities = tuple(_explain_priority())
    return Isolation(walls, level, missing, kernel, abi, not launchers, launchers, priorities)


def _find_missing() -> Iterator[MissingWall]:
    host = HostMachine(os.geteuid())
    namespaces = _run_trial(_enter_namespaces)
    yield from _explain_folders(host, namespaces)
    uid = _run_trial(_become_worker) if host.is_root else "not root"
    if uid:
        yield explain_uid(host, uid)
    elif namespaces and (path := _run_trial(_reach_interpreter)):
        yield explain_reach(path)
    if reason := _run_trial(seccomp.install_worker_filter):
        yield explain_seccomp(reason)
    if (abi := linux.landlock_version()) < linux.LANDLOCK_VERSION_MIN:
        yield explain_landlock(abi, linux.LANDLOCK_VERSION_MIN)
    group_walls = find_cgroup_parents().walls()
    for wall in ("memory", "pids", "freezer"):
        if wall not in group_walls:
            yield explain_group(host, wall)


def _explain_folders(host: HostMachine, namespaces: str) -> Iterator[MissingWall]:
    """Explain why a box has no root of its own, or none that it shares with nobody."""
    if namespaces:
        missing = explain_namespaces(host, namespaces)
        yield missing
        yield replace(missing, wall="image")
    elif reason := _run_trial(_mount_images):
        yield explain_image(host, reason)


def _enter_namespaces() -> None:
    """Take the same steps as a box, to the end: any of them may be forbidden."""
    with tempfile.TemporaryDirectory() as folder:
        spec = BoxSpec(("namespaces",), Limits(), submission=folder, main="")
        fork_entry.leave_pid_namespace()
        if reason := _run_trial(lambda: fork_entry.build_namespaces(spec, {})):
            raise OSError(reason)


def _mount_images() -> None:
    """Show an image of a folder, and mount it over each folder that boxes show.

    Raises OSError if the kernel cannot.
    """
    with tempfile.TemporaryDirectory(dir=image.PARENT) as folder:
        source = Path(folder, "source")
        source.mkdir()
        (source / _TRIAL).write_text(_TRIAL, encoding="utf-8")
        store = ImageStore(f"{folder}/store")
        small = store.find([str(source)])[str(source)]
        images = {path: replace(small, source=path) for path in walls.shown_folders()}
        spec = BoxSpec((), Limits(), submission="", main="")

        def show() -> None:
            places = fork_entry.mount_images(spec, images | {str(source): small})
            if Path(places[str(source)], _TRIAL).read_text(encoding="utf-8") != _TRIAL:
                raise OSError("overlayfs does not show a file's content")

        if reason := _run_trial(show):
            raise OSError(reason)


def _become_worker() -> None:
    linux.empty_bounding_set()
    linux.become_user(WORKER_UID)


def _reach_interpreter() -> None:
    """Raise OSError with the first path that is out of a worker's reach."""
    folders = [*walls.SYSTEM_PATHS[:1], *walls.interpreter_folders()]
    linux.become_user(WORKER_UID)
    for folder in folders:
        if not os.access(folder, os.R_OK | os.X_OK):
            raise OSError(folder)


def _explain_priority() -> Iterator[MissingWall]:
    if len(os.sched_getaffinity(0)) == 1:
        reason = "the referee and the workers share one core"
        yield MissingWall(_PRIORITY, reason, "give the agent two cores")
    elif reason := _run_trial(_use_priority):
        yield explain_priority(HostMachine(os.geteuid()), reason)


def _use_priority() -> None:
    """Take the priority as a run would, after it has dropped its privileges."""
    scheduling = realtime.permit(may_keep_capability=True)
    if os.geteuid() == 0:
        linux.become_user(WORKER_UID, scheduling)
    else:
        linux.drop_capabilities(scheduling)
    if obstacle := realtime.find_obstacle():
        raise OSError(obstacle)


def _try_bubblewrap(walls: tuple[str, ...]) -> None:
    """Let bubblewrap build its part of the walls around a program that does nothing.

    Raises OSError with its last message.
    """
    with tempfile.TemporaryDirectory() as folder:
        spec = BoxSpec(walls, Limits(), submission=folder, main="")
        # In its own file: on the same stream it would hide the error.
        record = os.memfd_create("record", 0)
        program = bubblewrap.bubblewrap_command(spec, [sys.executable, "-I", "-c", ""], record, {})
        process = subprocess.run(
            program, close_fds=False, capture_output=True, timeout=_TRIAL_S_MAX, check=False
        )
    if process.returncode != 0:
        raise OSError(process.stderr.decode(errors="replace").strip().rpartition("\n")[2])


def _run_trial(step: Callable[[], object]) -> str:
    """Run a step in its own process; return why it failed, "" if it did not."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        reason = ""
        try:
            step()
        except Exception as error:  # noqa: BLE001  (any error is a reason why this does not work)
            reason = describe_error(error)
        finally:
            os.write(write_end, f"{reason}\0".encode(errors="replace")[:_REASON_BYTES_MAX])
            os._exit(0)
    os.close(write_end)
    # One write of less than a page arrives as a whole.
    if select.select([read_end], [], [], _TRIAL_S_MAX)[0]:
        answer = os.read(read_end, _REASON_BYTES_MAX).decode(errors="replace")
        reason = answer.removesuffix("\0") if answer else "the kernel killed the trial"
    else:
        reason = f"it did not answer within {_TRIAL_S_MAX} s"
    os.close(read_end)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return reason


if __name__ == "__main__":
    sys.stdout.write(probe_isolation().to_json() + "\n")
