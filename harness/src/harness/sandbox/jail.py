"""Enters a box from a forked process, without exec: what bubblewrap does, and an import kept.

The keeper's child becomes the attendant: it builds the walls around itself, starts a worker for
each rank inside them, reaps, and leaves with the first status that is not 0. With namespaces it is
pid 1 inside, so its end is the end of all that is left.
"""

import fcntl
import os
import signal
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from harness.sandbox import channel, interpreter, landlock, linux, privileges, root, seccomp
from harness.sandbox.spec import Spec

CONTROL = 3
_REPORT = 4
_FIRST_FREE = 5
_OUT_OF_THE_WAY = 64
_UMASK = 0o022


@dataclass(frozen=True)
class Crew:
    """Who is to live in a box: a control socket for each worker, and what each of them does.

    `output` is where they print, `report` a channel to tell how it goes.
    """

    controls: Sequence[int]
    output: int
    report: socket.socket
    serve: Callable[[int], NoReturn]


def leave_user_namespace() -> None:
    """Makes an ordinary user the owner of namespaces that it may furnish; root needs none."""
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
        _build(spec)
    self_descriptor = os.pidfd_open(os.getpid())
    workers = {_start(spec, crew, control, self_descriptor) for control in crew.controls}
    _settle(spec, crew)
    status = _wait(workers)
    channel.tell(crew.report, {"status": status})
    os._exit(0)


def _build(spec: Spec) -> None:
    flags = linux.CLONE_NEWNS | linux.CLONE_NEWNET | linux.CLONE_NEWIPC | linux.CLONE_NEWUTS
    linux.unshare(flags, "mount, net, ipc, uts")
    linux.unshare(linux.CLONE_NEWCGROUP, "cgroup")
    linux.set_hostname("box")
    if spec.ranks > 1:
        linux.raise_loopback()
    root.enter(spec)


def _settle(spec: Spec, crew: Crew) -> None:
    """From here on the attendant only waits: nothing it holds is worth reaching for."""
    report = crew.report.fileno()
    null = os.open("/dev/null", os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    os.closerange(3, report)
    os.closerange(report + 1, os.sysconf("SC_OPEN_MAX"))
    if spec.has_namespaces:
        privileges.drop(spec)
    linux.become_unreadable()


def _wait(workers: set[int]) -> int:
    """The first status that is not 0; with it all the other ranks are ended."""
    status = 0
    while workers:
        pid, ended = os.wait()
        if pid not in workers:
            continue
        workers.remove(pid)
        code = os.waitstatus_to_exitcode(ended)
        if status == 0 and code != 0:
            status = code
            for other in workers:
                os.kill(other, signal.SIGKILL)
    return status


def _start(spec: Spec, crew: Crew, control: int, parent: int) -> int:
    """A worker, confined before it does anything else; returns its pid."""
    pid = os.fork()
    if pid == 0:
        try:
            _confine(spec, crew, control, parent)
            crew.serve(CONTROL)
        finally:
            os._exit(1)
    return pid


def _confine(spec: Spec, crew: Crew, control: int, parent: int) -> None:
    try:
        report = _hand_over(crew, control, parent)
    except Exception as error:
        channel.tell(crew.report, {"fault": channel.worded(error)})
        raise
    with report:
        try:
            _shut(spec)
        except Exception as error:
            channel.tell(report, {"fault": channel.worded(error)})
            raise
        channel.tell(report, {"built": 1})


def _hand_over(crew: Crew, control: int, parent: int) -> socket.socket:
    """Leaves the descriptors that a worker has: three streams, its socket, and for now a report."""
    streams = (os.open("/dev/null", os.O_RDONLY), crew.output, crew.output)
    wanted = (*streams, control, crew.report.fileno(), parent)
    moved = [fcntl.fcntl(one, fcntl.F_DUPFD, _OUT_OF_THE_WAY) for one in wanted]
    for place, descriptor in enumerate(moved):
        os.dup2(descriptor, place, inheritable=place <= CONTROL)
    # Its number may soon be somebody else's, whom an end of this object would close.
    crew.report.detach()
    os.closerange(_FIRST_FREE + 1, os.sysconf("SC_OPEN_MAX"))
    linux.die_with(_FIRST_FREE)
    os.setsid()
    return socket.socket(fileno=_REPORT)


def _shut(spec: Spec) -> None:
    """The walls around one process, in the only order in which all can be built."""
    privileges.die_first()
    privileges.limit(spec)
    privileges.drop(spec)
    # A change of uid clears both; /proc/self would be root's, and the worker could outlive us.
    linux.die_with(_FIRST_FREE)
    os.close(_FIRST_FREE)
    linux.become_readable()
    os.chdir(spec.home)
    if "landlock" in spec.walls and not spec.has_namespaces:
        landlock.restrict(_reach(spec))
    if "seccomp" in spec.walls:
        many = spec.ranks > 1
        seccomp.install(seccomp.FAMILIES_OF_RANKS if many else seccomp.FAMILIES_ALONE)


def _reach(spec: Spec) -> landlock.Paths:
    """What a worker may reach where it has no file system of its own."""
    ours = interpreter.package()
    listed, read = [], []
    for folder in interpreter.outermost([*root.SYSTEM, *interpreter.folders(), *spec.read_only]):
        if interpreter.is_below(ours, folder):
            listed.append(folder)
            read += interpreter.around(folder, ours)
        else:
            read.append(folder)
    tops = [f"/{name}" for name in root.TOP]
    return landlock.Paths(
        listed=listed,
        read=[*tops, *read, spec.submission],
        written=[spec.scratch],
        devices=[*root.DEVICES, *spec.devices],
    )
