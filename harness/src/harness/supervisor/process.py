"""The process of a run: a fork of the supervisor that gives up its rights before it has a request.

A *spare* process is one that was forked ahead. It has opened the device of the runs it is for, and
waits for its first request. Only the platform's own code has run in it.
"""

import contextlib
import io
import os
import pickle
import select
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from harness.defences import Defences
from harness.devices.cuda import host
from harness.devices.device import Device
from harness.messages import Request
from harness.problem import AuthorActivity, RunDirectory
from harness.sandbox import fork_entry, linux, realtime, seccomp, walls
from harness.supervisor.folders import RUN_UID, RunFolder
from harness.supervisor.run import DeviceSpec
from harness.vocabulary import CPU_DEVICE

_READ = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt", "/etc/ld.so.cache", "/etc/alternatives")
# A device's driver writes to its nodes, to /proc and /sys, and to the pipes of its service.
_WRITTEN = ("/proc", "/dev", "/sys", host.MPS_PIPES)
# What a process writes: a spare one is ready, or takes its first request; then in lines with the
# token of a request: its records are complete; after its report, it waits for another one, or ends.
READY, TAKES, KEEPS, WAITS, ENDS = b"r", b"t", b"k", b"w", b"e"
# The most that a spare process may take to open its device, and to take a request.
READY_S_MAX, TAKE_S_MAX = 30.0, 5.0
# What lists of processes call a spare one.
SPARE_NAME = "spare-run"
_MARK = "mark"

Purpose = tuple[object, ...]
_READ_BYTES = 64 * 1024


@dataclass(frozen=True)
class ProcessSpec:
    """What is known of a process before its requests; equal for processes that can be exchanged.

    Without a `run_device` it opens none: an inspection and a problem's own program do it
    themselves. `driver` changes when a GPU's driver is replaced.
    """

    device: str
    defences: Defences
    run_device: DeviceSpec | None = None
    driver: tuple[str, ...] = ()

    @classmethod
    def find(cls, device: str, defences: Defences, run_device: DeviceSpec | None) -> "ProcessSpec":
        """Return the specification of a process on this machine as it is now."""
        driver = () if device == CPU_DEVICE else host.driver_state()
        return cls(device, defences, run_device, driver)

    @property
    def has_gpu(self) -> bool:
        """Whether its runs use a GPU."""
        return self.device != CPU_DEVICE


class Order(NamedTuple):
    """A request for a process: its token, the request, its folder, whether others may follow."""

    token: str
    request: Request
    directory: RunDirectory
    is_shared: bool


class _OrderPickler(pickle.Pickler):
    """The page of a process is shared since its fork."""

    def persistent_id(self, value: Any) -> str | None:
        return _MARK if isinstance(value, AuthorActivity) else None


class _OrderUnpickler(pickle.Unpickler):
    def __init__(self, stream: BinaryIO, mark: AuthorActivity) -> None:
        super().__init__(stream)
        self._mark = mark

    def persistent_load(self, _: str) -> AuthorActivity:
        return self._mark


def encode_order(order: Order) -> bytes:
    """Return an order as a process reads it."""
    data = io.BytesIO()
    _OrderPickler(data).dump(order)
    return data.getvalue()


def decode_order(stream: BinaryIO, mark: AuthorActivity) -> Order:
    """Return the next order of a stream; `mark` is that of the process. Raises EOFError."""
    order = _OrderUnpickler(stream, mark).load()
    assert isinstance(order, Order)
    return order


class OrderReader:
    """The end of a process at which its orders arrive. Raises EOFError at their end."""

    def __init__(self, descriptor: int, mark: AuthorActivity) -> None:
        self._stream = os.fdopen(descriptor, "rb")
        self._mark = mark

    def read(self) -> Order:
        """Wait for the next order."""
        return decode_order(self._stream, self._mark)

    def wait_until_kept(self) -> None:
        """Wait until the supervisor has moved the records."""
        if self._stream.read(len(KEEPS)) != KEEPS:
            raise EOFError("the supervisor is gone")


@dataclass
class RunProcess:
    """A forked process that runs one request, or several of the same `purpose`; () means one.

    It writes its events to `reported`, and reads its orders from `requests`. An author's code in it
    can write there too, so an event counts by the token of its request; `heard` is the part of a
    line so far. A spare one has no `directory`, which is that of its first request.
    """

    pid: int
    spec: ProcessSpec
    folder: RunFolder
    reported: int
    requests: int
    purpose: Purpose = ()
    directory: RunDirectory | None = None
    is_spare: bool = False
    heard: bytes = b""

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended; it is not reaped."""
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def has_written(self, what: bytes, within_s: float) -> bool:
        """Return whether the next byte that it writes is this one."""
        ready, _, _ = select.select((self.reported,), (), (), within_s)
        return bool(ready) and os.read(self.reported, len(what)) == what

    def read_event(self, token: str) -> bytes:
        """Return what the process has written of a request, b"" if nothing is complete."""
        if not select.select((self.reported,), (), (), 0)[0]:
            return b""
        data = os.read(self.reported, _READ_BYTES)
        *lines, self.heard = (self.heard[-_READ_BYTES:] + data).split(b"\n")
        if not data:
            return ENDS
        by_line = {event_line(token, event).strip(): event for event in (KEEPS, WAITS, ENDS)}
        return next((by_line[line] for line in lines if line in by_line), b"")

    def hand_over(self, token: str, request: Request, directory: RunDirectory) -> None:
        """Send the next request to the process."""
        self.directory = self.directory or directory
        self._send(encode_order(Order(token, request, directory, bool(self.purpose))))

    def keep_records(self, out: Path) -> None:
        """Move the records of its request, and let it go on."""
        # A folder that is gone or full gets no records; the report is still true.
        with contextlib.suppress(OSError):
            self.folder.move_records(out)
        self._send(KEEPS)

    def close_files(self) -> None:
        """Close what belongs to this process, in a fork that is another one."""
        for descriptor in (self.reported, self.requests, self.folder.out):
            os.close(descriptor)

    def end(self) -> int:
        """End the process and return its exit status."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        os.close(self.reported)
        os.close(self.requests)
        return os.waitstatus_to_exitcode(status)

    def _send(self, data: bytes) -> None:
        # If it has just ended, the wait for its report finds that out.
        with contextlib.suppress(BrokenPipeError):
            while data:
                data = data[os.write(self.requests, data) :]


def event_line(token: str, event: bytes) -> bytes:
    """Return what a process writes of a request; it begins a line of its own."""
    return b"\n%s %s\n" % (token.encode(), event)


def take_request(device: Device, reported: int) -> bool:
    """Say that a spare process takes its first request; False if its device does not work."""
    if not device.is_usable():
        return False
    os.write(reported, TAKES)
    return True


def confine_process(folders: Sequence[int], *, leaves_network: bool, has_gpu: bool) -> None:
    """Confine this process irrevocably; `folders` are descriptors it may still write to.

    With `leaves_network` it enters an empty network namespace: the worker gets a socket that is
    created here, and a socket reveals the addresses of the namespace it was created in. With
    `has_gpu` it can connect to unix sockets in the machine's folders, as a GPU's driver needs.

    As root it switches to an account that owns nothing. Such an account may be unable to import
    an interpreter below a closed home folder, so then it keeps the capability to read files;
    Landlock, where the kernel has it, leaves it no files to read except the interpreter's. It also
    keeps the right to run at a low real-time priority, if this machine has it (`realtime`).
    """
    if leaves_network:
        fork_entry.leave_network_namespace()
    if linux.landlock_version() >= linux.LANDLOCK_VERSION_MIN:
        read = [*_READ, *walls.interpreter_folders(), walls.package_folder()]
        written = [*_WRITTEN, *(f"/proc/self/fd/{folder}" for folder in folders)]
        linux.restrict_paths(linux.AllowedPaths(read=read, written=written))
    # A GPU's driver chooses the cores of its other threads, which the filter below would refuse.
    # A capability in a user's own namespace allows no priority.
    is_root = os.getuid() == 0
    scheduling = realtime.permit(may_keep_capability=is_root and not has_gpu)
    if is_root:
        # A virtual environment may be readable while its base interpreter is not.
        is_open = all(_is_reachable(Path(prefix)) for prefix in (sys.prefix, sys.base_prefix))
        reading = 0 if is_open else 1 << linux.CAP_DAC_READ_SEARCH
        linux.become_user(RUN_UID, reading | scheduling)
    else:
        linux.empty_bounding_set()
        linux.drop_capabilities(scheduling)
    linux.become_unreadable()
    seccomp.install_worker_filter(seccomp.socket_families(1, has_unix=has_gpu))
    if scheduling:
        seccomp.forbid_foreign_scheduling()


def _is_reachable(folder: Path) -> bool:
    path = (folder.resolve(), *folder.resolve().parents)
    return all(place.stat().st_mode & 0o005 == 0o005 for place in path)
