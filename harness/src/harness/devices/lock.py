"""The lock of a device that several run processes of one machine share.

A run holds the device while it checks on it or times. On a GPU a run always holds it alone, because
a hostile context could disturb the results of others. On the device `cpu` runs share it while they
build and check, and a timed stage holds it alone: a build is paused for it, and a check goes on to
its end first.

The lock is two files in memory. `flock` locks belong to an open file, and the kernel releases them
when the last process that has it open is gone, so a killed run leaves the device free. The files
have no path, and no box inherits them or sees the processes that have them open.
"""

import asyncio
import contextlib
import fcntl
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from types import FrameType
from typing import NoReturn

# How long a run may wait for the device in all. Its holders have limits of their own.
DEVICE_WAIT_S_MAX = 1200.0
# A signal between two looks at the clock would be missed; the next one is not.
_ALARM_EVERY_S = 1.0
# How often an event loop, which must not block, looks whether the device is free.
_TRY_EVERY_S = 0.02


def make_device_lock() -> tuple[int, int]:
    """Return the descriptors of a new lock, which supervisors inherit and the caller closes."""
    return (
        os.memfd_create("warpboard-turnstile", os.MFD_CLOEXEC),
        os.memfd_create("warpboard-device", os.MFD_CLOEXEC),
    )


def open_device_lock(descriptors: Sequence[int]) -> tuple[int, ...]:
    """Return descriptors of the same lock that only this process and its children have open."""
    return tuple(
        os.open(f"/proc/self/fd/{descriptor}", os.O_RDWR | os.O_CLOEXEC)
        for descriptor in descriptors
    )


class DeviceTurn:
    """The hold of one run on its device; without descriptors the device is the run's own.

    `descriptors` are those of `open_device_lock`. `waited_s` is how long the run has waited. Use it
    in the main thread, which alone can be interrupted.
    """

    def __init__(self, descriptors: Sequence[int], wait_s_max: float = DEVICE_WAIT_S_MAX) -> None:
        self._descriptors = tuple(descriptors)
        self._wait_s_max = wait_s_max
        self._held = fcntl.LOCK_UN
        self.waited_s = 0.0

    @property
    def is_alone(self) -> bool:
        """Whether no other run uses the device."""
        return not self._descriptors or self._held == fcntl.LOCK_EX

    def take(self, *, is_alone: bool) -> None:
        """Hold the device alone, or together with others that share it. Raises TimeoutError."""
        operation = fcntl.LOCK_EX if is_alone else fcntl.LOCK_SH
        if not self._descriptors or self._held == operation:
            return
        # Two runs that share the device and both want it alone would wait for each other.
        self.release()
        began = time.monotonic()
        try:
            with _limit_wait(self._wait_s_max - self.waited_s):
                self._pass_turnstile(operation)
        except TimeoutError:
            waited_s = self.waited_s + time.monotonic() - began
            raise TimeoutError(f"other runs used the device for {waited_s:.0f} s") from None
        finally:
            self.waited_s += time.monotonic() - began
        self._held = operation

    def is_wanted_alone(self) -> bool:
        """Return whether a run waits until it may have the device alone, which this one shares."""
        if self._held != fcntl.LOCK_SH:
            return False
        turnstile = self._descriptors[0]
        # Nobody stays in the turnstile but who waits to be alone.
        if not _try_lock(turnstile, fcntl.LOCK_EX):
            return True
        fcntl.flock(turnstile, fcntl.LOCK_UN)
        return False

    def release(self) -> None:
        """Let others have the device."""
        if self._held != fcntl.LOCK_UN:
            fcntl.flock(self._descriptors[1], fcntl.LOCK_UN)
            self._held = fcntl.LOCK_UN

    def _pass_turnstile(self, operation: int) -> None:
        """Wait for the device in the turnstile, which holds back all who come later.

        So a run that wants the device alone waits for those who share it now, and for no others.
        """
        turnstile, device = self._descriptors
        try:
            fcntl.flock(turnstile, fcntl.LOCK_EX)
            fcntl.flock(device, operation)
        finally:
            fcntl.flock(turnstile, fcntl.LOCK_UN)


@contextlib.asynccontextmanager
async def share_device(descriptors: Sequence[int]) -> AsyncIterator[None]:
    """Hold the device together with others that share it, in an event loop.

    For work outside of a run that uses the machine's cores. Without descriptors there is no lock.
    """
    if not descriptors:
        yield
        return
    turnstile, device = own_descriptors = open_device_lock(descriptors)
    try:
        for descriptor, operation in ((turnstile, fcntl.LOCK_EX), (device, fcntl.LOCK_SH)):
            while not _try_lock(descriptor, operation):  # noqa: ASYNC110  (a lock has no event)
                await asyncio.sleep(_TRY_EVERY_S)
        fcntl.flock(turnstile, fcntl.LOCK_UN)
        yield
    finally:
        for descriptor in own_descriptors:
            os.close(descriptor)


def try_share(descriptors: Sequence[int]) -> bool:
    """Hold the device together with others if nobody uses it alone or waits to; else False.

    `descriptors` are those of `open_device_lock`; `stop_sharing` ends the hold.
    """
    if not descriptors:
        return True
    turnstile, device = descriptors
    if not _try_lock(turnstile, fcntl.LOCK_EX):
        return False
    try:
        return _try_lock(device, fcntl.LOCK_SH)
    finally:
        fcntl.flock(turnstile, fcntl.LOCK_UN)


def stop_sharing(descriptors: Sequence[int]) -> None:
    """End a hold of `try_share`."""
    if descriptors:
        fcntl.flock(descriptors[1], fcntl.LOCK_UN)


def _try_lock(descriptor: int, operation: int) -> bool:
    try:
        fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def _limit_wait(limit_s: float) -> Iterator[None]:
    """Raise TimeoutError in what is done within, after `limit_s`."""

    def expire(_signal: int, _frame: FrameType | None) -> NoReturn:
        raise TimeoutError

    if limit_s <= 0:
        raise TimeoutError
    before = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, limit_s, _ALARM_EVERY_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
