"""The life of a service's process: run until a signal, drain, end."""

import asyncio
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

import uvloop

from shared import logs, metrics
from shared.errors import Failed, Refused
from shared.file_limit import raise_file_limit
from shared.settings import Listen

PULSE_S = 1.0
SILENCE_S_MAX = 10.0
END_S_MAX = 5.0

Result = TypeVar("Result")

_log = logging.getLogger(__name__)


class Life:
    """What a process knows of its own life: whether to stop, and which parts ail."""

    def __init__(self) -> None:
        self.stopping = asyncio.Event()
        self._ailing: dict[str, str] = {}
        self._pulse_at = time.monotonic()

    def ail(self, part: str, reason: str | None) -> None:
        """Mark a part ill, with the reason that /healthz tells, or well again by None."""
        if reason is None:
            self._ailing.pop(part, None)
        else:
            self._ailing[part] = reason

    def ailing(self) -> dict[str, str]:
        """The parts that are ill; a loop that does not turn is one of them."""
        silence_s = time.monotonic() - self._pulse_at
        stuck = {"loop": f"silent for {silence_s:.0f} s"} if silence_s > SILENCE_S_MAX else {}
        return self._ailing.copy() | stuck

    async def beat(self, late: Callable[[float], None]) -> None:
        """Show, for as long as it runs, that the loop turns, and say how late."""
        while True:
            self._pulse_at = time.monotonic()
            await asyncio.sleep(PULSE_S)
            late(time.monotonic() - self._pulse_at - PULSE_S)


async def until_first(*loops: Coroutine[Any, Any, object]) -> None:
    """Run all until the first ends or fails, and cancel the rest.

    Errors: that of the one that failed. Several that fail at once because something outside is away
    are one failure, and a bug among them is told before those; of several bugs an ExceptionGroup.
    """
    tasks = [asyncio.create_task(loop) for loop in loops]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    failures = [task.exception() for task in tasks if not task.cancelled()]
    failed = [failure for failure in failures if failure is not None]
    bugs = [failure for failure in failed if not isinstance(failure, Failed)]
    if len(bugs) > 1:
        raise BaseExceptionGroup("several loops failed", bugs)
    if failed:
        raise (bugs or failed)[0]


def _stop_on_signals(life: Life) -> None:
    def stop(number: signal.Signals) -> None:
        if life.stopping.is_set():
            _log.warning("a second %s: leaving at once", number.name)
            os._exit(1)
        _log.info("stopping on %s", number.name)
        life.stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop, number)


def _leave_within(within_s: float) -> threading.Timer:
    """A hung thread or a task that refuses to be cancelled must not keep the process alive."""

    def leave() -> None:
        _log.error("not ended %.0f s after its end was due: leaving", within_s)
        os._exit(1)

    last = threading.Timer(within_s, leave)
    last.daemon = True
    last.start()
    return last


async def _finish(task: "asyncio.Task[None]", drain_s: float) -> int:
    """Wait for the end of main, at most `drain_s`, and say the exit code."""
    done, _ = await asyncio.wait({task}, timeout=drain_s)
    if not done:
        _log.error("not drained within %.0f s: cancelled", drain_s)
        task.cancel()
        await asyncio.wait({task}, timeout=END_S_MAX)
        return 1
    failure = None if task.cancelled() else task.exception()
    if failure is not None:
        _log.critical("the process ends: %s", failure, exc_info=failure)
    return 1 if task.cancelled() or failure is not None else 0


class _Process:
    """One run of main with its signals, its ops server and its limits."""

    def __init__(self, service: str, drain_s: float) -> None:
        self.service = service
        self.drain_s = drain_s
        self.last: threading.Timer | None = None

    async def run(self, ops: Listen, main: Callable[[Life], Awaitable[None]]) -> int:
        life = Life()

        async def whole() -> None:
            await main(life)

        _stop_on_signals(life)
        server = metrics.serve(ops, life.ailing)
        turned = metrics.LifeMetrics(self.service, life.ailing).turned
        beside = [asyncio.create_task(life.beat(turned)), asyncio.create_task(life.stopping.wait())]
        task = asyncio.create_task(whole())
        try:
            await asyncio.wait({task, beside[1]}, return_when=asyncio.FIRST_COMPLETED)
            self.last = _leave_within(self.drain_s + 2 * END_S_MAX)
            return await _finish(task, self.drain_s)
        finally:
            for other in beside:
                other.cancel()
            server.close()


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """What main returns, on libuv's loop: a message costs a third less than on Python's own."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


def live(
    service: str, ops: Listen, main: Callable[[Life], Awaitable[None]], drain_s: float = 20.0
) -> int:
    """Run a service until SIGTERM or SIGINT and return its exit code.

    The first signal sets `Life.stopping`, and main has `drain_s` to return; a second one ends
    the process at once. 0 is a normal end; 1 a failure, which is logged, or a drain too long.
    """
    logs.configure(service)
    process = _Process(service, drain_s)
    try:
        return run(process.run(ops, main))
    except OSError as error:
        _log.critical("cannot listen on %s: %s", ops, error)
        return 1
    finally:
        if process.last is not None:
            process.last.cancel()


class Told(Protocol):
    """What every service is told: where its own operators reach it."""

    @property
    def ops_listen(self) -> Listen:
        """The address of /healthz and /metrics."""
        ...


Settings = TypeVar("Settings", bound=Told)


def main(
    service: str,
    load: Callable[[], Settings],
    work: Callable[[Settings, Life], Awaitable[None]],
    drain_s: float = 20.0,
    files_min: int = 0,
) -> int:
    """Read the settings and live; 2, with a sentence, if they are refused.

    With `files_min` the process may open as many files as the system allows, and at least that.
    """
    try:
        settings = load()
        if files_min:
            raise_file_limit(files_min)
    except Refused as refused:
        sys.stderr.write(f"{refused.reason}\n")
        return 2
    return live(service, settings.ops_listen, lambda life: work(settings, life), drain_s)
