"""A clock that a test moves, for unmodified services.

`python -m tests.support.simulated_clock FILE MODULE [ARGUMENT ...]` runs a service, or a command of
`warpboard`, on the clock in a file. Time passes as fast as ever, but from the instant that the test
sets. NATS, Postgres and the monotonic clock keep the real time. `tests.support.clocked_platform`
has a whole platform.

Nothing of the services is imported before the clock is replaced, since they import its function.
"""

import mmap
import os
import runpy
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import patch

OFFSET = struct.Struct("<d")
NOW = "now"


class SimulatedClock:
    """The time of all processes that use the same file, which has its distance to real time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            os.ftruncate(descriptor, OFFSET.size)
            self._shared = mmap.mmap(descriptor, OFFSET.size)
        finally:
            os.close(descriptor)

    @property
    def offset(self) -> timedelta:
        """How far it is ahead of the real time."""
        return timedelta(seconds=OFFSET.unpack_from(self._shared)[0])

    def now(self) -> datetime:
        """The current time in UTC, as `shared.clock.now` returns it."""
        return datetime.now(UTC) + self.offset

    def move_to(self, at: datetime) -> None:
        """Go on from an instant; every process sees it at once."""
        OFFSET.pack_into(self._shared, 0, (at - datetime.now(UTC)).total_seconds())

    @contextmanager
    def patched(self) -> Iterator[None]:
        """Meanwhile all modules of this process that import `shared.clock.now` use this clock."""
        from shared import clock

        true_now = clock.now
        with ExitStack() as stack:
            for module in list(sys.modules.values()):
                if getattr(module, NOW, None) is true_now:
                    stack.enter_context(patch.object(module, NOW, self.now))
            yield


def run(clock: SimulatedClock, module: str, arguments: Sequence[str]) -> None:
    """Run a module as a program whose wall clock is this one."""
    from shared import clock as shared_clock

    true_now = shared_clock.now
    # mypy refuses to assign a function of a module.
    setattr(shared_clock, NOW, clock.now)
    if module == "scheduler":
        _agree_with_server(clock, true_now)
    if module == "warpboard":
        _run_ranker_on(clock)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _agree_with_server(clock: SimulatedClock, true_now: Callable[[], datetime]) -> None:
    """Let the scheduler compare the true clocks of this machine and of the server."""
    from scheduler import service

    class SimulatedServerClock(service.ServerClock):
        def __init__(self) -> None:
            super().__init__(true_now)

        def now(self) -> datetime:
            return super().now() + clock.offset

    setattr(service, "ServerClock", SimulatedServerClock)  # noqa: B010  (as above)


def _run_ranker_on(clock: SimulatedClock) -> None:
    """Let the commands of ranker that the command line starts run on the clock, too."""
    from warpboard.processes import maintenance

    *options, module = maintenance.RANKER
    ranker = (*options, "tests.support.simulated_clock", str(clock.path.absolute()), module)
    setattr(maintenance, "RANKER", ranker)  # noqa: B010  (as above)


if __name__ == "__main__":
    run(SimulatedClock(Path(sys.argv[1])), sys.argv[2], sys.argv[3:])
