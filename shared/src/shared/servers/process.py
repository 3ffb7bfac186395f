"""A child process that ends with us, and a server that is one: a folder, a process, a lock.

One process at a time, with its children, may use a folder that it has locked.
"""

import fcntl
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import groupby, takewhile
from pathlib import Path

from shared.errors import Failed, Refused

LOCK_FILE = "lock"
PATIENCE_S = 10.0

# Work that yields whenever it has to wait.
Steps = Generator[None, None, None]

STEP_S = 0.005
TAIL_BYTES = 2000
JSON_LINE = '{"'
LOG_BYTES_MAX = 16 * 1024 * 1024
KILL_S_MAX = 5.0


class FolderInUse(Refused):
    """A folder that another process holds, perhaps an orphan that is still exiting."""

    def __init__(self, folder: Path, pid: int | None) -> None:
        user = "another process" if pid is None else f"process {pid}"
        super().__init__("in_use", f"{folder} is in use by {user}")
        self.folder = folder
        self.pid = pid


def lock_folder(folder: Path) -> int:
    """Lock a folder, creating it if needed, and return the descriptor that holds the lock.

    A child that inherits the descriptor keeps the lock for as long as it lives, even when we
    are killed: nats-server takes no lock itself, and two on one store destroy it.
    Errors: FolderInUse.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise FolderInUse(folder, lock_holder(folder)) from None
    return lock


def lock_folder_steps(folder: Path, patience_s: float) -> Generator[None, None, int]:
    """Lock a folder as `lock_folder` does, waiting while its last user may still be exiting.

    Yields while it waits; returns the descriptor.
    """
    until = time.monotonic() + patience_s
    while True:
        try:
            return lock_folder(folder)
        except FolderInUse:
            if time.monotonic() > until:
                raise
        yield


def write_lock_holder(lock: int, pid: int) -> None:
    """Write into a lock that we hold which process uses the folder."""
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{pid}\n".encode(), 0)


def is_folder_locked(folder: Path) -> bool:
    """Return whether some process uses the folder now."""
    try:
        lock = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def lock_holder(folder: Path) -> int | None:
    """Return the process that signed the lock, if it still has the lock open.

    The process id alone is not enough: after a crash it may belong to any other process.
    """
    file = folder / LOCK_FILE
    try:
        pid = int(file.read_text())
        os.kill(pid, 0)
        open_files = (
            list(Path(f"/proc/{pid}/fd").iterdir()) if Path("/proc/self").exists() else [file]
        )
    except (FileNotFoundError, PermissionError, ProcessLookupError, ValueError):
        return None
    return pid if any(_is_same_file(path, file) for path in open_files) else None


def _is_same_file(path: Path, other: Path) -> bool:
    try:
        return path.samefile(other)
    except OSError:
        return False


@dataclass(frozen=True)
class Launch:
    """What to start: the program, its log, and the signal it gets when our process ends."""

    command: tuple[str, ...]
    log: Path
    death_signal: signal.Signals = signal.SIGTERM
    environ: Mapping[str, str] | None = None
    locks: tuple[int, ...] = ()
    prefix: tuple[str, ...] = ()
    user: str = "-"

    def start(self) -> "subprocess.Popen[bytes]":
        """Start it in its own session, so that a Ctrl-C reaches only us.

        `prefix` comes before the program that sets the death signal (a new user namespace would
        clear it), `user` is the `uid:gid` to switch to. Errors: OSError.
        """
        # The death signal is sent when the thread that started the child ends.
        assert threading.current_thread() is threading.main_thread(), "start from the main thread"
        wrapper = str(Path(__file__).with_name("parent_death.py"))
        arguments = (str(self.death_signal.value), str(os.getpid()), self.user)
        # Private to us; one that is too large is rotated.
        self.log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.log.exists() and self.log.stat().st_size > LOG_BYTES_MAX:
            self.log.replace(self.log.with_name(f"{self.log.name}.1"))
        self.log.touch(mode=0o600)
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [*self.prefix, sys.executable, "-I", "-S", wrapper, *arguments, *self.command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/" if self.user != "-" else None,
                env=self.environ,
                pass_fds=self.locks,
                start_new_session=True,
            )


def tail(log: Path) -> str:
    """Return the last lines of a log, at most 2 kB, without repetitions.

    A service that gives a reason for its end writes it as text below its JSON lines, which are then
    left out: they are about what it did before, or about an earlier start.
    """
    if not log.exists():
        return ""
    with log.open("rb") as file:
        if (skipped := log.stat().st_size - TAIL_BYTES) > 0:
            file.seek(skipped)
            file.readline()  # The rest of a line whose beginning is skipped.
        lines = file.read().decode(errors="replace").strip().splitlines()
    reason = list(takewhile(lambda line: not line.startswith(JSON_LINE), reversed(lines)))[::-1]
    return "\n".join(line for line, _ in groupby(reason or lines))


def startup_failure(
    name: str, process: "subprocess.Popen[bytes]", log: Path, within_s: float
) -> Failed:
    """Explain why a started process is not ready: it ended, or does not answer in time."""
    is_slow = process.poll() is None
    reason = f"it runs, and does not answer within {within_s:g} s" if is_slow else "it ended"
    end = tail(log)
    separator = "\n" if "\n" in end else ": "
    return Failed(f"{name} did not start: {reason}{separator}{end}")


def kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill a process and its group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait(KILL_S_MAX)


def stop_steps(
    process: "subprocess.Popen[bytes]", number: signal.Signals, within_s: float
) -> Steps:
    """Ask a process to stop, and kill it and its group if it has not ended in that time."""
    process.send_signal(number)
    deadline = time.monotonic() + within_s
    while process.poll() is None and time.monotonic() < deadline:
        yield
    kill(process)


def run_steps(steps: Steps) -> None:
    """Run steps that yield when they wait, and wait here."""
    with closing(steps):
        for _ in steps:
            time.sleep(STEP_S)


def create_password(path: Path) -> str:
    """Create a new password and write it to the file."""
    password = secrets.token_urlsafe(24)
    path.touch(mode=0o600)
    path.write_text(password)
    return password


def load_password(path: Path) -> str:
    """Return the password in the file, creating it on the first call."""
    return (path.exists() and path.read_text()) or create_password(path)


START_S_MAX = 60.0  # A long crash recovery of Postgres is a slow start, not a failure.
STOP_S_MAX = 15.0


class Server:
    """A server that uses its folder exclusively; a restart keeps its address."""

    name = "server"
    stop_signal = signal.SIGTERM

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.log = self.folder / "log"
        self.patience_s = PATIENCE_S
        self.stop_s = STOP_S_MAX
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Its address without the password."""
        raise NotImplementedError

    def starting(self) -> Steps:
        """Start, yielding while it waits; if it is closed early, kill everything.

        Errors: FolderInUse if another process has the folder; Failed with the last log lines.
        """
        lock = yield from lock_folder_steps(self.folder, self.patience_s)
        try:
            yield from self.prepare(lock)
            self.process = self.launch(lock).start()
            write_lock_holder(lock, self.process.pid)
        finally:
            os.close(lock)  # The child's copy keeps the lock.
        yield from self._wait_until_ready(self.process)

    def _wait_until_ready(self, process: "subprocess.Popen[bytes]") -> Steps:
        until = time.monotonic() + START_S_MAX
        is_ready = False
        try:
            while not (is_ready := self.is_ready(process.pid)):
                if process.poll() is not None or time.monotonic() > until:
                    raise startup_failure(self.name, process, self.log, START_S_MAX)
                yield
        finally:
            if not is_ready:
                kill(process)

    def stopping(self) -> Steps:
        """Stop within the limit, yielding while it waits."""
        if self.process is not None:
            yield from stop_steps(self.process, self.stop_signal, self.stop_s)
        self.clean()

    def is_alive(self) -> bool:
        """Return whether its process runs."""
        return self.process is not None and self.process.poll() is None

    def kill(self) -> None:
        """Kill it, as a power cut would."""
        if self.process is not None:
            kill(self.process)

    def stop(self) -> None:
        """Stop it within the limit, and wait."""
        run_steps(self.stopping())

    def prepare(self, lock: int) -> Steps:
        """Create what its process needs before it starts; yields while it waits."""
        raise NotImplementedError

    def launch(self, lock: int) -> Launch:
        """Return how to start its process."""
        raise NotImplementedError

    def is_ready(self, pid: int) -> bool:
        """Return whether the process is ready to answer."""
        raise NotImplementedError

    def answers(self, within_s: float) -> bool:
        """Return whether it answers a client that connects; blocks for at most about `within_s`."""
        raise NotImplementedError

    def clean(self) -> None:
        """Remove what it left outside its folder."""
