"""What every command has at hand, and how it is run until its end or a signal."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpboard.service.checking import Tools
from warpboard.service.machine import Books, Machine
from warpboard.service.ports import Api, Connect, Disk, Harness, Keys, Plots, Reports, Screen

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(Exception):  # noqa: N818  (an outcome, not an error)
    """A signal came; all that was under way has been put away."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(number.name)
        self.number = number


@dataclass(frozen=True)
class Place:
    """Which platform, as which participant or operator; None means as the environment says."""

    url: str | None
    participant: str | None
    folder: Path | None = None
    operator: str | None = None


@dataclass(frozen=True)
class Desk:
    """Everything that a command may need, made by `__main__`."""

    screen: Screen
    disk: Disk
    harness: Harness
    reports: Reports
    machine: Machine
    books: Books
    keys: Keys
    plots: Plots
    url: Callable[[Place], str]
    api: Callable[[Place], AbstractAsyncContextManager[Api]]
    office: Callable[[Place], AbstractAsyncContextManager[Api]]
    look: Callable[[Place], AbstractAsyncContextManager[Api]]
    connect: Connect
    participant: Callable[[Place], str | None]
    operator: Callable[[Place], str]
    folder: Callable[[Path | None], Path]
    serve: Callable[[Place], Coroutine[Any, Any, int]]

    @property
    def tools(self) -> Tools:
        """What checks need of it."""
        return Tools(self.disk, self.harness, self.screen, self.reports)

    def ask(self, place: Place, command: Callable[[Api], Coroutine[Any, Any, int]]) -> int:
        """Run a command that speaks with the platform; its exit code."""

        return run(_with(self.api(place), command))

    def operate(self, place: Place, command: Callable[[Api], Coroutine[Any, Any, int]]) -> int:
        """Run an operator's command; its exit code. Errors: Refused without a token."""
        return run(_with(self.office(place), command))


async def _with(
    opening: AbstractAsyncContextManager[Api], command: Callable[[Api], Coroutine[Any, Any, int]]
) -> int:
    async with opening as api:
        return await command(api)


def run(command: Coroutine[Any, Any, int]) -> int:
    """Run a command to its exit code; the first signal cancels it, further ones change nothing.

    Errors: those of the command; Stopped after a signal, once the command has put all away.
    """
    return asyncio.run(_until_signal(command))


async def _until_signal(command: Coroutine[Any, Any, int]) -> int:
    task = asyncio.ensure_future(command)
    came: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        if not came:
            task.cancel()
        came.append(number)

    loop = asyncio.get_running_loop()
    for number in STOPPING:
        loop.add_signal_handler(number, stop, number)
    try:
        return await task
    except asyncio.CancelledError as cancelled:
        if came:
            raise Stopped(came[0]) from cancelled
        raise
    finally:
        for number in STOPPING:
            loop.remove_signal_handler(number)
