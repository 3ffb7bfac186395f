"""Starts a worker bounded and with nothing of ours, speaks with it, and ends its whole tree.

The level is none: limits and a separate process, no walls. The worker is started by exec and gets
an environment made from nothing, a scratch folder, three standard streams and one socket.
"""

import importlib
import json
import os
import resource
import select
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.problem import Problem
from harness.supervisor import processes
from harness.supervisor.output import Log
from harness.supervisor.verdict import CaseFailed, of_failure, of_status
from harness.worker import protocol

# Unbuffered, for what is printed before a crash or a kill is what helps most.
_FLAGS = ("-I", "-B", "-u", "-X", "faulthandler")
_MEMORY_BYTES = 2 * 1024**3
_CHUNK_BYTES = 64 * 1024
_LAST_WORDS_S = 1.0

# The user's other processes count too, so this only keeps a fork bomb from filling the machine.
_PROCESSES_MAX = 4096


class SandboxFault(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """No worker could be started: the machine's fault."""


@dataclass(frozen=True)
class Guest:
    """Whom to start: the submitted file, its problem, a folder to live in, seconds of processor."""

    source: Path
    problem: Problem
    scratch: Path
    cpu_s: float


class Worker:
    """The guest process as its supervisor sees it: a socket, an output, an end."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket) -> None:
        self.log = Log()
        self._process = process
        self._control = control
        self._pidfd = os.pidfd_open(process.pid)
        assert process.stdout is not None
        self._output = process.stdout.fileno()
        os.set_blocking(self._output, False)
        self._poll = select.poll()
        for descriptor in (control.fileno(), self._pidfd, self._output):
            self._poll.register(descriptor, select.POLLIN)

    def send(self, message: bytes, descriptors: Sequence[int] = ()) -> None:
        """Sends a packet without ever blocking. Errors: CaseFailed, if it cannot be sent."""
        try:
            if descriptors:
                socket.send_fds(self._control, [message], descriptors, socket.MSG_DONTWAIT)
            else:
                self._control.send(message, socket.MSG_DONTWAIT)
        except BlockingIOError as error:
            raise CaseFailed("protocol", "the worker does not read its socket") from error
        except OSError:
            raise self._closed() from None

    def require_silence(self) -> None:
        """Errors: CaseFailed, if the worker said what nobody asked for, or ended."""
        if any(descriptor != self._output for descriptor, _ in self._poll.poll(0)):
            self._receive()
            raise CaseFailed("protocol", "the worker sent a message that was not asked for")

    def receive(self, until: float, waited_for: str) -> bytes:
        """The next packet, waited for until an instant of the monotonic clock.

        Errors: CaseFailed: timed_out, output_limit, crashed, protocol, or the failure it tells.
        """
        while True:
            left_s = until - time.monotonic()
            ready = {descriptor for descriptor, _ in self._poll.poll(max(0.0, left_s * 1000))}
            if self._output in ready:
                self._drain()
            if self._control.fileno() in ready:
                return _unless_failed(self._receive())
            if self._pidfd in ready:
                raise self._closed()
            if left_s <= 0:
                raise CaseFailed("timed_out", waited_for)

    def end(self) -> bool:
        """Kills the worker and all that it left behind; False if something would not die."""
        self._process.kill()
        self._process.wait(processes.END_S_MAX)
        is_empty = processes.end_descendants()
        self._drain_rest()
        self._control.close()
        os.close(self._pidfd)
        return is_empty

    def _receive(self) -> bytes:
        try:
            message = self._control.recv(protocol.ANSWER_BYTES_MAX + 1, socket.MSG_DONTWAIT)
        except OSError:
            message = b""
        if not message:
            raise self._closed()
        return message

    def _closed(self) -> CaseFailed:
        """Why the socket is of no more use: the worker died, or it only closed its end."""
        try:
            status = self._process.wait(_LAST_WORDS_S)
        except subprocess.TimeoutExpired:
            return CaseFailed("protocol", "the worker closed its control socket")
        self._drain_rest()
        return of_status(status)

    def _drain(self) -> None:
        try:
            chunk = os.read(self._output, _CHUNK_BYTES)
        except BlockingIOError:
            return
        self.log.add(chunk)
        if not chunk:
            self._poll.unregister(self._output)
        if self.log.is_over:
            raise CaseFailed("output_limit", "more than 1 MiB was printed")

    def _drain_rest(self) -> None:
        """What is left in the pipe, after the end; a pipe holds less than the limit."""
        assert self._process.stdout is not None
        while not self.log.is_over and (chunk := self._process.stdout.read(_CHUNK_BYTES)):
            self.log.add(chunk)


def start(guest: Guest) -> Worker:
    """A worker on its way to READY. Errors: SandboxFault."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        submission = _furnish(guest)
        arguments = (str(theirs.fileno()), str(os.getpid()), str(submission))
        process = subprocess.Popen(
            [sys.executable, *_FLAGS, "-m", "harness.worker", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=[theirs.fileno()],
            cwd=guest.scratch,
            env=_environment(guest.scratch),
            start_new_session=True,
            bufsize=0,
        )
        _limit(process.pid, guest.cpu_s)
    except OSError as error:
        raise SandboxFault(f"the worker could not be started: {error}") from error
    theirs.close()
    return Worker(process, ours)


def _unless_failed(message: bytes) -> bytes:
    """The message, unless it is the worker's word that it failed, or not a message at all."""
    if message[:1] != protocol.FAILED:
        return message
    try:
        said = json.loads(message[1:])
        kind, text = str(said["kind"]), str(said["text"])
    except (KeyError, RecursionError, TypeError, ValueError):
        raise CaseFailed("protocol", "the worker sent a malformed message") from None
    if len(message) > protocol.ANSWER_BYTES_MAX or kind not in protocol.FAILURE_KINDS:
        raise CaseFailed("protocol", "the worker sent a malformed message")
    raise of_failure(kind, text)


def _furnish(guest: Guest) -> Path:
    """Puts into the scratch folder what a submission may import, and the submission itself."""
    folder = guest.problem.folder
    utilities = importlib.import_module("harness.supervisor.utilities").__file__
    shutil.copyfile(str(utilities), guest.scratch / "utils.py")
    for name in ("task.py", "utils.py"):
        if name in guest.problem.files:
            shutil.copyfile(folder / name, guest.scratch / name)
    submission = guest.scratch / guest.problem.submission
    shutil.copyfile(guest.source, submission)
    return submission


def _environment(scratch: Path) -> dict[str, str]:
    threads = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
    caches = ("XDG_CACHE_HOME", "NUMBA_CACHE_DIR", "TORCH_EXTENSIONS_DIR", "TRITON_CACHE_DIR")
    homes = ("HOME", "TMPDIR")
    return {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.defpath}",
        "LANG": "C.UTF-8",
        **dict.fromkeys(threads, "1"),
        **dict.fromkeys(homes, str(scratch)),
        **dict.fromkeys(caches, str(scratch / "cache")),
    }


def _limit(pid: int, cpu_s: float) -> None:
    """Set from outside, before the new interpreter has reached a line of anybody's code."""
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: 256,
        resource.RLIMIT_FSIZE: 64 * 1024**2,
        resource.RLIMIT_CPU: int(cpu_s) + 1,
        resource.RLIMIT_DATA: _MEMORY_BYTES,
        resource.RLIMIT_NPROC: _PROCESSES_MAX,
    }
    for what, most in limits.items():
        hard = resource.prlimit(pid, what)[1]
        value = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.prlimit(pid, what, (value, value))
