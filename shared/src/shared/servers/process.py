"""A child process on a leash: started, watched and ended within limits."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from shared.errors import Failed

# Work that yields whenever there is nothing to do but wait.
Steps = Generator[None, None, None]

STEP_S = 0.005
TAIL_BYTES = 2000
LOG_BYTES_MAX = 16 * 1024 * 1024
KILL_S_MAX = 5.0


@dataclass(frozen=True)
class Launch:
    """What to start: the program, where its output goes, and what it gets when we are gone."""

    command: tuple[str, ...]
    log: Path
    death_signal: signal.Signals = signal.SIGTERM
    environ: Mapping[str, str] | None = None
    locks: tuple[int, ...] = ()
    prefix: tuple[str, ...] = ()
    user: str = "-"

    def start(self) -> "subprocess.Popen[bytes]":
        """Start it in a session of its own, so that a Ctrl-C reaches us alone.

        `prefix` comes before the leash (which a new user namespace would cut), `user` is the
        `uid:gid` to become. Errors: OSError.
        """
        # The death signal is bound to the thread that starts the child.
        assert threading.current_thread() is threading.main_thread(), "start from the main thread"
        leash = str(Path(__file__).with_name("leash.py"))
        held = (str(self.death_signal.value), str(os.getpid()), self.user)
        _prepare(self.log)
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [*self.prefix, sys.executable, "-I", "-S", leash, *held, *self.command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/" if self.user != "-" else None,
                env=self.environ,
                pass_fds=self.locks,
                start_new_session=True,
            )


def _prepare(log: Path) -> None:
    """Make the log, closed to others; keep one older one, so that none grows for ever."""
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if log.exists() and log.stat().st_size > LOG_BYTES_MAX:
        log.replace(log.with_name(f"{log.name}.1"))
    log.touch(mode=0o600)


def tail(log: Path) -> str:
    """The last lines of a log, at most 2 kB of them."""
    if not log.exists():
        return ""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - TAIL_BYTES))
        return file.read().decode(errors="replace").strip()


def unready(name: str, process: "subprocess.Popen[bytes]", log: Path, within_s: float) -> Failed:
    """Why a process that was started is not up: it ended, or it does not answer in time."""
    is_slow = process.poll() is None
    why = f"it runs, and does not answer within {within_s:g} s" if is_slow else "it ended"
    return Failed(f"{name} did not start: {why}\n{tail(log)}")


def kill(process: "subprocess.Popen[bytes]") -> None:
    """End a process and its group at once."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait(KILL_S_MAX)


def ending(process: "subprocess.Popen[bytes]", number: signal.Signals, within_s: float) -> Steps:
    """Ask a process to end, and kill it and its group when it has not in that time."""
    process.send_signal(number)
    until = time.monotonic() + within_s
    while process.poll() is None and time.monotonic() < until:
        yield
    kill(process)


def drive(steps: Steps) -> None:
    """Take steps that yield when they wait, waiting here."""
    with closing(steps):
        for _ in steps:
            time.sleep(STEP_S)
