"""Enters a box from a forked process, without exec: like bubblewrap, but with imports kept.

The keeper's child becomes the attendant: it builds the walls around itself, starts a worker for
each rank inside them, reaps, and exits with the first status that is not 0. With namespaces it is
pid 1 inside, so when it ends everything inside ends. Before it runs foreign code, each process
gives up its privileges irrevocably.
"""

import contextlib
import fcntl
import os
import resource
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from harness.sandbox import linux, ranks, realtime, seccomp, walls
from harness.sandbox.box import WORKER_UID, BoxSpec, describe_error, send_message
from harness.sandbox.image import Image

# The user's other processes count too where a box has no limit of its own; stops a fork bomb.
_USER_PROCESSES_MAX = 4096
_OOM_SCORE_MAX = "1000"
_CORE_BYTES = 1

_REPORT = 4
PARENT = 5
_FIRST_FREE_DESCRIPTOR = 64
_MACHINE_FILES = ("/proc/cpuinfo", "/proc/meminfo")
_UMASK = 0o022


def set_limits(spec: BoxSpec, *, has_processes: bool = True) -> None:
    """Set the limits and cores that need no control group, and replace missing groups.

    Without `has_processes`, the number of processes is limited later.
    """
    bind_process(spec)
    limit_resources(spec, has_processes=has_processes)


def bind_process(spec: BoxSpec) -> None:
    """Bind this process to the cores of the box, without core dumps or real-time priorities."""
    if spec.cores:
        os.sched_setaffinity(0, spec.cores)
    _forbid_core_dumps()
    # A container may allow its processes real-time priorities.
    realtime.forbid()


def limit_resources(spec: BoxSpec, *, has_processes: bool = True) -> None:
    """Set the limits of resources; a process may only lower its own."""
    limits = spec.limits
    values = {
        resource.RLIMIT_NOFILE: limits.files_max,
        resource.RLIMIT_FSIZE: limits.file_bytes_max,
        resource.RLIMIT_CPU: limits.cpu_s,
    }
    # A GPU's driver reserves far more than it uses, and RLIMIT_DATA may count it.
    if "memory" not in spec.walls and not spec.devices:
        values[resource.RLIMIT_DATA] = limits.memory_bytes
    if not spec.devices:
        values[resource.RLIMIT_AS] = limits.address_space_factor * limits.memory_bytes
    if has_processes and "pids" not in spec.walls:
        is_alone = "uid" in spec.walls or spec.has_namespaces
        values[resource.RLIMIT_NPROC] = limits.processes_max if is_alone else _USER_PROCESSES_MAX
    for resource_id, value in values.items():
        hard = resource.getrlimit(resource_id)[1]
        # RLIM_INFINITY is -1, and no process may raise its hard limit.
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)  # noqa: PLW2901
        resource.setrlimit(resource_id, (value, value))


def _forbid_core_dumps() -> None:
    """Set the limit at which the kernel also starts no program that takes core dumps.

    Such a program (`core_pattern`) runs as root, outside of the box; a limit of 0 does not stop it.
    Only root may raise a limit of 0, so it stays where it is 0 for an ordinary user.
    """
    with contextlib.suppress(ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (_CORE_BYTES, _CORE_BYTES))


def drop_privileges(spec: BoxSpec) -> None:
    """Drop every capability for good; as root, also become another user."""
    linux.empty_bounding_set()
    if "uid" in spec.walls:
        linux.become_user(WORKER_UID)
    else:
        linux.drop_capabilities()
    linux.forbid_new_privileges()


def die_first_of_memory() -> None:
    """Make the kernel kill this process first when memory runs out."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE_MAX, encoding="ascii")


@dataclass(frozen=True)
class BoxWorkers:
    """The workers of a box: a control socket for each, and the function that each runs.

    `output` is the pipe they print to, `report` a channel to report progress on, and `imported` are
    the parts of the harness that they read themselves.
    """

    controls: Sequence[int]
    output: int
    report: socket.socket
    serve: Callable[[int], NoReturn]
    imported: Sequence[str] = ()


class ForkEntry:
    """Enters a box by fork alone."""

    fault_files: Sequence[int] = ()

    def __init__(self, spec: BoxSpec, box_workers: BoxWorkers, images: Mapping[str, Image]) -> None:
        self._spec = spec
        self._box_workers = box_workers
        self._images = images

    def prepare(self) -> None:
        """Make the next fork pid 1 of a new pid namespace. Raises OSError."""
        if self._spec.has_namespaces:
            leave_pid_namespace()

    def begin(self) -> NoReturn:
        """Run the attendant's whole life, in that fork. Raises OSError."""
        spec, box_workers = self._spec, self._box_workers
        set_umask()
        if spec.has_namespaces:
            build_namespaces(spec, self._images)
        self_descriptor = os.pidfd_open(os.getpid())
        workers = {
            _start_worker(spec, box_workers, control, self_descriptor)
            for control in box_workers.controls
        }
        # From here on the attendant only waits.
        linux.silence_streams()
        linux.keep_descriptors([box_workers.report.fileno()])
        if spec.has_namespaces:
            drop_privileges(spec)
        linux.become_unreadable()
        status = ranks.wait_for_ranks(workers)
        send_message(box_workers.report, {"status": status})
        os._exit(0)

    def fault(self, _: int) -> str:
        """Return "": every fault was reported when it happened."""
        return ""


def set_umask() -> None:
    """Set the mode of files that the processes of a box create."""
    os.umask(_UMASK)


def leave_pid_namespace() -> None:
    """Put the next fork of this process into a new pid namespace; root needs no user namespace."""
    if os.geteuid() != 0:
        _leave_user_namespace()
    linux.unshare(linux.CLONE_NEWPID, "pid")


def leave_network_namespace() -> None:
    """Put this process, and every socket it creates later, into an empty network.

    An ordinary user has all capabilities in the new user namespace until it drops them.
    """
    if os.geteuid() != 0:
        _leave_user_namespace()
    linux.unshare(linux.CLONE_NEWNET, "net")


def _leave_user_namespace() -> None:
    """Make an ordinary user the owner of namespaces that it may change."""
    uid, gid = os.geteuid(), os.getegid()
    linux.become_readable()  # /proc/self is root's otherwise
    linux.unshare(linux.CLONE_NEWUSER, "user")
    for file, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{uid} {uid} 1"),
        ("gid_map", f"{gid} {gid} 1"),
    ):
        descriptor = os.open(f"/proc/self/{file}", os.O_WRONLY)
        os.write(descriptor, text.encode())
        os.close(descriptor)
    linux.become_unreadable()


def build_namespaces(spec: BoxSpec, images: Mapping[str, Image]) -> None:
    """Give this process, whose pid namespace is new, its own namespaces and root."""
    flags = linux.CLONE_NEWNS | linux.CLONE_NEWNET | linux.CLONE_NEWIPC | linux.CLONE_NEWUTS
    linux.unshare(flags, "mount, net, ipc, uts")
    linux.unshare(linux.CLONE_NEWCGROUP, "cgroup")
    linux.set_hostname("box")
    if spec.ranks > 1:
        linux.raise_loopback()
    walls.enter_root(spec, images)


def mount_images(spec: BoxSpec, images: Mapping[str, Image]) -> dict[str, str]:
    """Mount images in a new mount namespace of this process; return where each folder's is."""
    if os.geteuid() != 0:
        _leave_user_namespace()
    linux.unshare(linux.CLONE_NEWNS, "mount")
    return walls.mount_images(spec, images)


def _start_worker(spec: BoxSpec, box_workers: BoxWorkers, control: int, parent: int) -> int:
    """Fork a worker that is confined before it does anything else; return its pid."""
    pid = os.fork()
    if pid == 0:
        try:
            _confine(spec, box_workers, control, parent)
            box_workers.serve(ranks.CONTROL)
        finally:
            os._exit(1)
    send_schedule(box_workers.report, pid)
    return pid


def send_schedule(report: socket.socket, pid: int) -> None:
    """Send the kernel's file on how long a worker waited for a core, if there is one."""
    try:
        schedule = os.open(f"/proc/{pid}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return
    send_message(report, {"schedule": True}, [schedule])
    os.close(schedule)


def _confine(spec: BoxSpec, box_workers: BoxWorkers, control: int, parent: int) -> None:
    report = box_workers.report
    try:
        report = _place_descriptors(box_workers, control, parent)
        build_walls(spec, PARENT, box_workers.imported)
    except Exception as error:
        send_message(report, {"fault": describe_error(error)})
        raise
    send_message(report, {"built": 1})
    report.close()


def _place_descriptors(box_workers: BoxWorkers, control: int, parent: int) -> socket.socket:
    """Leave a worker its descriptors: streams, socket, and for now a report channel."""
    streams = (os.open("/dev/null", os.O_RDONLY), box_workers.output, box_workers.output)
    descriptors = (*streams, control, box_workers.report.fileno(), parent)
    for place, descriptor in enumerate(move_descriptors(descriptors)):
        os.dup2(descriptor, place, inheritable=place <= ranks.CONTROL)
    # Its number may be reused, and destroying this object would close the new file.
    box_workers.report.detach()
    linux.keep_descriptors(range(ranks.CONTROL, len(descriptors)))
    linux.die_with_parent(PARENT)
    os.setsid()
    return socket.socket(fileno=_REPORT)


def move_descriptors(descriptors: Sequence[int]) -> list[int]:
    """Duplicate files to high numbers, so that low ones can be assigned in any order."""
    return [
        fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE_DESCRIPTOR)
        for descriptor in descriptors
    ]


def build_walls(
    spec: BoxSpec, parent: int, imported: Sequence[str] = (), *, has_limits: bool = True
) -> None:
    """Build the walls around one process, in the only order that works.

    `parent` is a pidfd, which is closed. Without `has_limits`, the process has to call
    `limit_resources` before it runs foreign code.
    """
    has_landlock = "landlock" in spec.walls and not spec.has_namespaces
    # These paths may be out of the worker's reach later.
    allowed = _allowed_paths(spec, imported) if has_landlock else linux.AllowedPaths()
    die_first_of_memory()
    bind_process(spec)
    if has_limits:
        limit_resources(spec)
    drop_privileges(spec)
    # A change of uid clears both: /proc/self would be root's, and the worker could outlive us.
    linux.die_with_parent(parent)
    os.close(parent)
    linux.become_readable()
    os.chdir(spec.home)
    if has_landlock:
        linux.restrict_paths(allowed)
    if "seccomp" in spec.walls:
        # A GPU's driver and its service use unix sockets.
        has_unix = spec.has_namespaces or bool(spec.devices)
        families = seccomp.socket_families(spec.ranks, has_unix=has_unix)
        seccomp.install_worker_filter(families, keeps_cores=not spec.devices)


def _allowed_paths(spec: BoxSpec, imported: Sequence[str]) -> linux.AllowedPaths:
    """Return what a worker may reach where it has no file system of its own."""
    package = walls.package_folder()
    names, read = [], [*imported]
    if imported:
        names.append(str(Path(package).parent))
    for folder in walls.outermost(
        [*walls.SYSTEM_PATHS, *walls.interpreter_folders(), *spec.read_only]
    ):
        if walls.is_below(package, folder):
            names.append(folder)
            read += walls.list_around(folder, package)
        else:
            read.append(folder)
    tops = [f"/{name}" for name in walls.TOP_FOLDERS]
    return linux.AllowedPaths(
        list_only=names,
        read=[*tops, *read, *_MACHINE_FILES, spec.submission],
        written=[spec.scratch],
        # CUDA names its threads by writing below /proc/self.
        devices=[*walls.DEVICES, *spec.devices, "/proc/self"],
    )
