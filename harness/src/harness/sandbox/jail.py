"""Enters a box from a forked process, without exec: what bubblewrap does, and an import kept.

The keeper's child becomes the attendant: it builds the walls around itself, starts a worker for
each rank inside them, reaps, and leaves with the first status that is not 0. With namespaces it is
pid 1 inside, so its end is the end of all that is left.
"""

import fcntl
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from harness.sandbox import channel, interpreter, landlock, linux, privileges, ranks, root, seccomp
from harness.sandbox.spec import Spec

_REPORT = 4
_PARENT = 5
_OUT_OF_THE_WAY = 64
_OF_THE_MACHINE = ("/proc/cpuinfo", "/proc/meminfo")
_UMASK = 0o022


@dataclass(frozen=True)
class Crew:
    """Who is to live in a box: a control socket for each worker, and what each of them does.

    `output` is where they print, `report` a channel to tell how it goes, `imported` what of the
    harness they read themselves.
    """

    controls: Sequence[int]
    output: int
    report: socket.socket
    serve: Callable[[int], NoReturn]
    imported: Sequence[str] = ()


class Jail:
    """The way into a box by forks alone."""

    kept: Sequence[int] = ()

    def __init__(self, spec: Spec, crew: Crew) -> None:
        self._spec = spec
        self._crew = crew

    def prepare(self) -> None:
        """The next fork is pid 1 of a new pid namespace. Errors: OSError."""
        if self._spec.has_namespaces:
            leave_pid_namespace()

    def begin(self) -> NoReturn:
        """That fork's whole life. Errors: OSError."""
        attend(self._spec, self._crew)

    def fault(self, _: int) -> str:
        """Every fault was told when it happened."""
        return ""


def leave_pid_namespace() -> None:
    """Puts what this process forks next into a new one, which root may do without another user."""
    if os.geteuid() != 0:
        _leave_user_namespace()
    linux.unshare(linux.CLONE_NEWPID, "pid")


def leave_network_namespace() -> None:
    """Puts this process, and every socket that it makes from now on, into an empty network.

    An ordinary user has all capabilities in the new user namespace until it drops them.
    """
    if os.geteuid() != 0:
        _leave_user_namespace()
    linux.unshare(linux.CLONE_NEWNET, "net")


def _leave_user_namespace() -> None:
    """Makes an ordinary user the owner of namespaces that it may furnish."""
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


def attend(spec: Spec, crew: Crew) -> NoReturn:
    """The attendant's whole life, in a fork whose pid namespace is new. Errors: OSError."""
    os.umask(_UMASK)
    if spec.has_namespaces:
        build(spec)
    self_descriptor = os.pidfd_open(os.getpid())
    workers = {_start(spec, crew, control, self_descriptor) for control in crew.controls}
    _settle(spec, crew)
    status = ranks.wait(workers)
    channel.tell(crew.report, {"status": status})
    os._exit(0)


def build(spec: Spec) -> None:
    """Namespaces and a root of its own for this process, whose pid namespace is new."""
    flags = linux.CLONE_NEWNS | linux.CLONE_NEWNET | linux.CLONE_NEWIPC | linux.CLONE_NEWUTS
    linux.unshare(flags, "mount, net, ipc, uts")
    linux.unshare(linux.CLONE_NEWCGROUP, "cgroup")
    linux.set_hostname("box")
    if spec.ranks > 1:
        linux.raise_loopback()
    root.enter(spec)


def _settle(spec: Spec, crew: Crew) -> None:
    """From here on the attendant only waits: nothing it holds is worth reaching for."""
    linux.silence_streams()
    linux.keep_descriptors([crew.report.fileno()])
    if spec.has_namespaces:
        privileges.drop(spec)
    linux.become_unreadable()


def _start(spec: Spec, crew: Crew, control: int, parent: int) -> int:
    """A worker, confined before it does anything else; returns its pid."""
    pid = os.fork()
    if pid == 0:
        try:
            _confine(spec, crew, control, parent)
            crew.serve(ranks.CONTROL)
        finally:
            os._exit(1)
    _tell_schedule(crew, pid)
    return pid


def _tell_schedule(crew: Crew, pid: int) -> None:
    """Hands out the kernel's account of how long a worker waited for a core, where there is one."""
    try:
        descriptor = os.open(f"/proc/{pid}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return
    channel.tell(crew.report, {"schedule": True}, [descriptor])
    os.close(descriptor)


def _confine(spec: Spec, crew: Crew, control: int, parent: int) -> None:
    try:
        report = _hand_over(crew, control, parent)
    except Exception as error:
        channel.tell(crew.report, {"fault": channel.worded(error)})
        raise
    with report:
        try:
            _shut(spec, crew.imported)
        except Exception as error:
            channel.tell(report, {"fault": channel.worded(error)})
            raise
        channel.tell(report, {"built": 1})


def _hand_over(crew: Crew, control: int, parent: int) -> socket.socket:
    """Leaves the descriptors that a worker has: three streams, its socket, and for now a report."""
    streams = (os.open("/dev/null", os.O_RDONLY), crew.output, crew.output)
    wanted = (*streams, control, crew.report.fileno(), parent)
    for place, descriptor in enumerate(moved(wanted)):
        os.dup2(descriptor, place, inheritable=place <= ranks.CONTROL)
    # Its number may soon be somebody else's, whom an end of this object would close.
    crew.report.detach()
    linux.keep_descriptors(range(ranks.CONTROL, len(wanted)))
    linux.die_with(_PARENT)
    os.setsid()
    return socket.socket(fileno=_REPORT)


def moved(descriptors: Sequence[int]) -> list[int]:
    """The same files by other numbers, so that low ones can be given away in any order."""
    return [fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, _OUT_OF_THE_WAY) for one in descriptors]


def _shut(spec: Spec, imported: Sequence[str]) -> None:
    """The walls around one process, in the only order in which all can be built."""
    has_landlock = "landlock" in spec.walls and not spec.has_namespaces
    # What is looked up here may be out of the worker's reach.
    reach = _reach(spec, imported) if has_landlock else landlock.Paths()
    privileges.die_first()
    privileges.limit(spec)
    privileges.drop(spec)
    # A change of uid clears both; /proc/self would be root's, and the worker could outlive us.
    linux.die_with(_PARENT)
    os.close(_PARENT)
    linux.become_readable()
    os.chdir(spec.home)
    if has_landlock:
        landlock.restrict(reach)
    if "seccomp" in spec.walls:
        # A GPU's driver and its service talk by unix sockets.
        has_unix = spec.has_namespaces or bool(spec.devices)
        families = seccomp.families_for(spec.ranks, has_unix=has_unix)
        seccomp.install(families, keeps_cores=not spec.devices)


def _reach(spec: Spec, imported: Sequence[str]) -> landlock.Paths:
    """What a worker may reach where it has no file system of its own."""
    ours = interpreter.package()
    listed, read = [], [*imported]
    if imported:
        listed.append(str(Path(ours).parent))
    for folder in interpreter.outermost([*root.SYSTEM, *interpreter.folders(), *spec.read_only]):
        if interpreter.is_below(ours, folder):
            listed.append(folder)
            read += interpreter.around(folder, ours)
        else:
            read.append(folder)
    tops = [f"/{name}" for name in root.TOP]
    return landlock.Paths(
        listed=listed,
        read=[*tops, *read, *_OF_THE_MACHINE, spec.submission],
        written=[spec.scratch],
        # CUDA names its threads by writing below /proc/self.
        devices=[*root.DEVICES, *spec.devices, "/proc/self"],
    )
