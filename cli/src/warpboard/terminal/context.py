"""What every command has access to, and how a command runs until its end or a signal."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpboard.service.checks import CheckContext
from warpboard.service.machine import LogMaintenance, Machine
from warpboard.service.plots import Plots
from warpboard.service.ports import Api, Connect, Disk, Harness, ReportStore, Screen, TokenStore
from warpboard.terminal.program import Stopped

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class PlatformTarget:
    """Which platform, as which participant or operator; None means as in the environment."""

    url: str | None
    participant: str | None
    folder: Path | None = None
    operator: str | None = None


@dataclass(frozen=True)
class AppContext:
    """Everything that commands need, created by `__main__`."""

    screen: Screen
    disk: Disk
    harness: Harness
    reports: ReportStore
    machine: Machine
    books: LogMaintenance
    keys: TokenStore
    plots: Plots
    url: Callable[[PlatformTarget], str]
    api: Callable[[PlatformTarget], AbstractAsyncContextManager[Api]]
    office: Callable[[PlatformTarget], AbstractAsyncContextManager[Api]]
    look: Callable[[PlatformTarget], AbstractAsyncContextManager[Api]]
    connect: Connect
    participant: Callable[[PlatformTarget], str | None]
    operator: Callable[[PlatformTarget], str]
    folder: Callable[[Path | None], Path]
    serve: Callable[[PlatformTarget], Coroutine[Any, Any, int]]

    @property
    def tools(self) -> CheckContext:
        """The part that checks need."""
        return CheckContext(self.disk, self.harness, self.screen, self.reports)

    def ask(self, place: PlatformTarget, command: Callable[[Api], Coroutine[Any, Any, int]]) -> int:
        """Run a command that uses the API; return its exit code."""

        return run(_run_with_api(self.api(place), command))

    def operate(
        self, place: PlatformTarget, command: Callable[[Api], Coroutine[Any, Any, int]]
    ) -> int:
        """Run an operator's command; return its exit code. Raises Refused without a token."""
        return run(_run_with_api(self.office(place), command))


async def _run_with_api(
    opening: AbstractAsyncContextManager[Api], command: Callable[[Api], Coroutine[Any, Any, int]]
) -> int:
    async with opening as api:
        return await command(api)


def run(command: Coroutine[Any, Any, int]) -> int:
    """Run a command and return its exit code; the first signal cancels it, later ones are ignored.

    Raises the errors of the command, and Stopped after a signal, once the command has cleaned up.
    """
    return asyncio.run(_run_until_signal(command))


async def _run_until_signal(command: Coroutine[Any, Any, int]) -> int:
    task = asyncio.ensure_future(command)
    signals: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        if not signals:
            task.cancel()
        signals.append(number)

    loop = asyncio.get_running_loop()
    for number in STOPPING:
        loop.add_signal_handler(number, stop, number)
    try:
        return await task
    except asyncio.CancelledError as cancelled:
        if signals:
            raise Stopped(signals[0]) from cancelled
        raise
    finally:
        for number in STOPPING:
            loop.remove_signal_handler(number)
