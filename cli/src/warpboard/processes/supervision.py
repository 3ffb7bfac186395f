"""The platform for as long as some work, or until a signal."""

import asyncio
import signal
from collections.abc import Awaitable, Callable

from warpboard.processes.platform import Platform

Work = Callable[[Platform], Awaitable[None]]


async def _beside(platform: Platform, work: Work) -> None:
    """The work, with the platform watched; whichever ends or fails first ends both."""

    async def worked() -> None:
        await work(platform)

    tasks = [asyncio.create_task(platform.watch()), asyncio.create_task(worked())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    for end in ends:
        if isinstance(end, Exception):
            raise end


async def _started(platform: Platform, work: Work) -> None:
    await platform.start()
    await _beside(platform, work)


def _ending_signals() -> list[signal.Signals]:
    """Those that end us; a hangup does not if we were started to outlive the terminal."""
    hangup = [signal.SIGHUP] if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN else []
    return [signal.SIGINT, signal.SIGTERM, *hangup]


async def supervise(platform: Platform, work: Work) -> signal.Signals | None:
    """Start the platform, do the work, stop all; the signal that ended it, if one did.

    A first signal stops all in order, whether during the start or the work; a second one kills.
    Errors: those of `Platform.start`, `Platform.watch` and of the work.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.create_task(_started(platform, work))
    came: list[signal.Signals] = []

    def end(number: signal.Signals) -> None:
        came.append(number)
        if len(came) == 1:
            task.cancel()
        else:
            platform.kill()

    ending = _ending_signals()
    for number in ending:
        loop.add_signal_handler(number, end, number)
    try:
        await task
    except asyncio.CancelledError:
        if not came:
            raise
    finally:
        await platform.stop()
        for number in ending:
            loop.remove_signal_handler(number)
    return came[0] if came else None
