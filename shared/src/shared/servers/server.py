"""What nats-server and Postgres have in common: one folder, one process, one lock."""

import os
import signal
import subprocess
import time
from pathlib import Path

from shared.servers import lock as locks
from shared.servers import process as processes
from shared.servers.process import Steps

START_S_MAX = 60.0  # A long crash recovery of Postgres is a slow start, not a failure.
STOP_S_MAX = 15.0


class Server:
    """A server that has its folder alone; a restart keeps its address."""

    name = "server"
    stop_signal = signal.SIGTERM

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.log = self.folder / "log"
        self.patience_s = locks.PATIENCE_S
        self.stop_s = STOP_S_MAX
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Where it answers, without the password."""
        raise NotImplementedError

    def starting(self) -> Steps:
        """Start, yielding whenever there is nothing to do but wait; closed early, kill all.

        Errors: InUse if another process has the folder; Failed, with the last lines of the log.
        """
        lock = yield from locks.holding(self.folder, self.patience_s)
        try:
            yield from self.prepare(lock)
            self.process = self.launch(lock).start()
            locks.sign(lock, self.process.pid)
        finally:
            os.close(lock)  # The child's copy keeps the lock.
        yield from self._becoming_ready(self.process)

    def _becoming_ready(self, process: "subprocess.Popen[bytes]") -> Steps:
        until = time.monotonic() + START_S_MAX
        is_ready = False
        try:
            while not (is_ready := self.is_ready(process.pid)):
                if process.poll() is not None or time.monotonic() > until:
                    raise processes.unready(self.name, process, self.log, START_S_MAX)
                yield
        finally:
            if not is_ready:
                processes.kill(process)

    def stopping(self) -> Steps:
        """Stop within the limit, yielding whenever there is nothing to do but wait."""
        if self.process is not None:
            yield from processes.ending(self.process, self.stop_signal, self.stop_s)
        self.clean()

    def is_alive(self) -> bool:
        """Whether its process runs."""
        return self.process is not None and self.process.poll() is None

    def kill(self) -> None:
        """End it as a power cut would, without a word."""
        if self.process is not None:
            processes.kill(self.process)

    def stop(self) -> None:
        """Stop it within the limit, and wait."""
        processes.drive(self.stopping())

    def prepare(self, lock: int) -> Steps:
        """What must be there before its process starts; yields while it waits."""
        raise NotImplementedError

    def launch(self, lock: int) -> processes.Launch:
        """How its process is started."""
        raise NotImplementedError

    def is_ready(self, pid: int) -> bool:
        """Whether the process answers by now."""
        raise NotImplementedError

    def clean(self) -> None:
        """Remove what it leaves outside its folder."""
