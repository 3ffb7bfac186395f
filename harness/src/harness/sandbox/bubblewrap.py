"""Starts boxes with bubblewrap and exec: the same walls built another way, a fresh interpreter.

The walls are options of bubblewrap, in the order in which they are built.
"""

import os
import shutil
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from harness.sandbox import fork_entry, linux, ranks, seccomp, walls
from harness.sandbox.box import SCRATCH, SUBMISSION, WORKER_UID, BoxSpec, send_message
from harness.sandbox.fork_entry import BoxWorkers
from harness.sandbox.image import Image
from harness.sandbox.keeper import BoxEntry
from harness.sandbox.launcher import ZygoteLauncher
from harness.sandbox.linux import END_S_MAX
from harness.sandbox.settings import replace_environment

_NAMESPACES = (
    *("--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"),
    *("--unshare-cgroup-try", "--hostname", "box", "--die-with-parent"),
)
# As root: a mapped uid would still be root to the kernel, so setpriv changes it.
_SETPRIV_CAPABILITIES = ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP")

_RECORD_BYTES_MAX = 4096


def bubblewrap_command(
    spec: BoxSpec, inside: Sequence[str], record: int, places: Mapping[str, str]
) -> list[str]:
    """Return the command that runs a program in the box.

    It inherits the filter's descriptor, which is opened here. `record` is where bubblewrap notes
    how the program ended; `places` are where images are mounted, by the folder that each is of.
    Raises OSError.
    """
    package = walls.package_folder()
    command = [_require_tool("bwrap"), "--json-status-fd", str(record), *_NAMESPACES]
    if os.geteuid() != 0:
        # Bubblewrap's own pid 1 would belong to this user too, outside of the filter.
        command += ["--unshare-user", "--disable-userns", "--as-pid-1"]
    else:
        command += ["--cap-drop", "ALL"]
        for capability in _SETPRIV_CAPABILITIES if "uid" in spec.walls else ():
            command += ["--cap-add", capability]
    command += _system_options(spec, places)
    command += _device_options(spec)
    # Only the part of the harness that the worker imports, wherever it is installed.
    command += [*_parent_options(package), "--perms", "0755", "--tmpfs", package]
    for path in (*walls.worker_files(), ranks.__file__):
        command += [*_parent_options(path), "--ro-bind", path, path]
    command += ["--remount-ro", package, "--ro-bind", spec.submission, SUBMISSION]
    command += ["--chdir", SCRATCH, "--remount-ro", "/"]
    if "seccomp" in spec.walls:
        program = seccomp.build_filter(
            seccomp.socket_families(spec.ranks), keeps_cores=not spec.devices
        )
        descriptor = os.memfd_create("filter", 0)
        os.write(descriptor, program)
        os.lseek(descriptor, 0, os.SEEK_SET)
        command += ["--seccomp", str(descriptor)]
    command.append("--")
    if "uid" in spec.walls:
        command += [_require_tool("setpriv"), f"--reuid={WORKER_UID}", f"--regid={WORKER_UID}"]
        command += ["--clear-groups", "--inh-caps=-all", "--bounding-set=-all"]
        command += ["--no-new-privs", "--"]
    return [*command, *inside]


def _require_tool(name: str) -> str:
    path = shutil.which(name, path=f"{os.defpath}:/usr/local/bin")
    if path is None:
        raise OSError(f"{name} is not installed")
    return path


def _system_options(spec: BoxSpec, places: Mapping[str, str]) -> Iterator[str]:
    links = []
    for name in walls.TOP_FOLDERS:
        top = Path("/", name)
        if top.is_symlink():
            yield from ("--symlink", str(top.readlink()), str(top))
            links.append(str(top))
        elif top.is_dir():
            yield from ("--ro-bind", places.get(str(top), str(top)), str(top))
    for path in walls.shown_paths(spec):
        if not any(walls.is_below(path, link) for link in links) and Path(path).exists():
            yield from _parent_options(path)
            yield from ("--ro-bind", places.get(path, path), path)
    yield from ("--proc", "/proc")
    for path in walls.MASKED:
        if Path(path).exists():
            yield from ("--dev-bind", walls.NULL_DEVICE, path)


def _device_options(spec: BoxSpec) -> Iterator[str]:
    yield from ("--perms", "0755", "--size", "65536", "--tmpfs", "/dev")
    for path in (*walls.DEVICES, *spec.devices):
        yield from (*_parent_options(path), "--dev-bind-try", path, path)
    for name, target in walls.LINKS.items():
        yield from ("--symlink", f"/proc/self/{target}", f"/dev/{name}")
    for path in ("/dev/shm", SCRATCH):  # noqa: S108
        yield from ("--perms", "1777", "--size", str(spec.limits.scratch_bytes), "--tmpfs", path)
    # Without another user, the worker's user has created it and could write to it.
    yield from ("--remount-ro", "/dev")
    # An interpreter may lie below /tmp and is mounted by now.
    visible_paths = (*walls.shown_paths(spec), walls.package_folder(), *spec.devices)
    if not any(walls.is_below(path, "/tmp") for path in visible_paths):  # noqa: S108
        yield from ("--symlink", SCRATCH.lstrip("/"), "/tmp")  # noqa: S108


def _parent_options(path: str) -> Iterator[str]:
    """Create parent folders; bubblewrap would make them inaccessible to the worker."""
    for folder in reversed(Path(path).parents[:-1]):
        yield from ("--perms", "0755", "--dir", str(folder))


class BubblewrapLauncher(ZygoteLauncher):
    """The launcher that starts workers by exec, so that their memory holds nothing of ours."""

    way = "exec"

    def __init__(self, walls: Sequence[str] = (), end_s_max: float = END_S_MAX) -> None:
        """Return before it is ready; `walls` are those that no box may lack."""
        super().__init__(walls, imports=(), end_s_max=end_s_max)


def choose_box_entry(
    spec: BoxSpec, box_workers: BoxWorkers, images: Mapping[str, Image]
) -> BoxEntry:
    """Use bubblewrap, or our own walls where there are no namespaces; by exec in both cases."""
    if spec.has_namespaces:
        return BubblewrapEntry(spec, box_workers, images)

    def execute_worker(_: int) -> NoReturn:
        replace_environment(spec.environment)
        program = ranks.worker_command(spec.path)
        os.execv(program[0], program)  # noqa: S606  (a program of our own)

    executed = replace(box_workers, serve=execute_worker, imported=walls.worker_files())
    return fork_entry.ForkEntry(spec, executed, images)


class BubblewrapEntry:
    """Enters a box with bubblewrap."""

    def __init__(self, spec: BoxSpec, box_workers: BoxWorkers, images: Mapping[str, Image]) -> None:
        self._spec = spec
        self._box_workers = box_workers
        self._images = images
        # Where bubblewrap notes that the program inside was started, and how it ended.
        self._record = os.memfd_create("record")
        self.fault_files: Sequence[int] = (self._record,)

    def prepare(self) -> None:
        """Check the tools; bubblewrap makes its own namespaces. Raises OSError."""
        _require_tool("bwrap")
        if "uid" in self._spec.walls:
            _require_tool("setpriv")

    def begin(self) -> NoReturn:
        """Become bubblewrap. Raises OSError."""
        box_workers, spec = self._box_workers, self._spec
        count = len(box_workers.controls)
        moved = fork_entry.move_descriptors(
            [*box_workers.controls, box_workers.output, box_workers.report.fileno(), self._record]
        )
        box_workers.report.detach()
        output, report, record = moved[count:]
        controls = range(ranks.CONTROL, ranks.CONTROL + count)
        for place, control in zip(controls, moved, strict=False):
            os.dup2(control, place)
        linux.silence_streams()
        for stream in (1, 2):
            os.dup2(output, stream)
        linux.keep_descriptors([*controls, report, record])
        os.set_inheritable(record, True)
        fork_entry.die_first_of_memory()
        # An ordinary user's other processes count until the box has a user namespace.
        fork_entry.set_limits(spec, has_processes=os.geteuid() == 0)
        report_socket = socket.socket(fileno=report)
        places = fork_entry.mount_images(spec, self._images) if self._images else {}
        program = bubblewrap_command(spec, _inner_command(spec, controls), record, places)
        send_message(report_socket, {"built": count})
        os.execve(program[0], program, spec.environment)  # noqa: S606  (a program of our own)

    def fault(self, code: int) -> str:
        """Return why the program inside never started; "" if bubblewrap noted how it ended."""
        record = os.pread(self._record, _RECORD_BYTES_MAX, 0)
        if code < 0 or b"exit-code" in record:
            return ""
        return f"bubblewrap could not build the box and exited with status {code}"


def _inner_command(spec: BoxSpec, controls: Sequence[int]) -> list[str]:
    """Return the worker's command, behind a starter that reaps where one is needed.

    It is needed for several workers, and where the program would be pid 1.
    """
    is_root = os.geteuid() == 0
    if len(controls) == 1 and is_root:
        return ranks.worker_command(spec.path)
    is_limited = is_root or "pids" in spec.walls
    processes_max = 0 if is_limited else spec.limits.processes_max
    numbers = map(str, (processes_max, *controls))
    return [sys.executable, *ranks.FLAGS, ranks.__file__, spec.path, *numbers]
