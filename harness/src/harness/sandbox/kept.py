"""A box as its client sees it: a keeper's channel, a freezer's open files, and an end."""

import contextlib
import os
import select
import socket
import time
from typing import Any

from harness.sandbox import channel, schedule
from harness.sandbox.box import SandboxFault, StopTimeout
from harness.sandbox.freezer import FREEZE_S_MAX, Switch
from harness.sandbox.processes import END_S_MAX

_ANSWER_S_MAX = 5.0
_START_S_MAX = 30.0
# Above this a shell, or bubblewrap, tells the number of a signal.
_SIGNALLED = 128


class KeptBox:
    """A Box behind a keeper; needs no privilege. `pidfd` is the keeper's."""

    def __init__(self, keeper: socket.socket, pidfd: int) -> None:
        self.pidfd = pidfd
        self._keeper = keeper
        self._switch: Switch | None = None
        self._schedules: list[int] = []
        self._heard: dict[str, Any] = {}
        self._built = 0
        self._is_closed = False
        self._ended: bool | None = None

    @property
    def can_freeze(self) -> bool:
        """Whether the box has a freezer."""
        return self._switch is not None

    def settle(self, built: int) -> None:
        """Waits until so many workers are within their walls. Errors: SandboxFault."""
        until = time.monotonic() + _START_S_MAX
        while self._built < built:
            self._raise_fault()
            if not self._listen(until):
                reason = self._heard.get("fault", "the box ended before it was built")
                raise SandboxFault(reason if self._is_closed else "the box was not built in time")

    def freeze(self) -> None:
        """Stops everything in the box where it is. Errors: StopTimeout."""
        if self._ended is not None:
            return
        assert self._switch is not None, "this box has no freezer"
        if not self._switch.freeze():
            raise StopTimeout(f"the box did not freeze within {FREEZE_S_MAX} s")

    def thaw(self) -> None:
        """Lets everything in the box run on."""
        if self._ended is not None:
            return
        assert self._switch is not None, "this box has no freezer"
        self._switch.thaw()

    def cpu_us(self) -> int | None:
        """Microseconds of processor that the box has used, where they can be read at once."""
        if self._switch is None or self._ended is not None:
            return None
        return self._switch.cpu_us()

    def waited_us(self) -> float:
        """Microseconds that its workers wanted a core and had none; 0 where nobody counts them.

        Of each worker the first thread is asked, so that of several too little is counted.
        """
        # An attendant tells of a worker after it has started it, so the news may come late.
        if not self._schedules:
            self._listen(0.0)
        return sum(map(schedule.waited_us, self._schedules))

    def status(self, within_s: float) -> int | None:
        """How the ranks ended, None if they run on. Errors: SandboxFault, if the box broke."""
        until = time.monotonic() + within_s
        while "status" not in self._heard and self._listen(until):
            continue
        self._raise_fault()
        if "status" in self._heard:
            return int(self._heard["status"])
        if "code" in self._heard:
            return _status(self._heard["code"])
        if self._is_closed:
            raise SandboxFault("the keeper of the box is gone")
        return None

    def is_out_of_memory(self) -> bool:
        """Whether the kernel killed something in the box because its memory limit was reached.

        Errors: SandboxFault, if the memory of the machine was used up and not that of the box.
        """
        self._refresh()
        kill = self._heard.get("memory_kill", "")
        if kill == "machine":
            raise SandboxFault(
                "the machine ran out of memory while the submission was below its limit"
            )
        return bool(kill == "box")

    def usage(self) -> dict[str, float]:
        """What the box used so far: cpu_s and peak_memory_mib, as far as they are known."""
        self._refresh()
        return dict(self._heard.get("usage", {}))

    def end(self) -> bool:
        """Kills everything in the box and removes it; False if something would not die."""
        if self._ended is None:
            with contextlib.suppress(OSError):
                channel.tell(self._keeper, {"end": True})
            until = time.monotonic() + END_S_MAX
            while "over" not in self._heard and self._listen(until):
                continue
            is_gone = bool(
                select.select([self.pidfd], [], [], max(0.0, until - time.monotonic()))[0]
            )
            # A keeper that left without a word leaves it to the launcher to clear up and look.
            self._ended = is_gone and bool(self._heard.get("is_empty", self._is_closed))
            self._close()
        return self._ended

    def _close(self) -> None:
        self._keeper.close()
        self._is_closed = True
        os.close(self.pidfd)
        if self._switch is not None:
            self._switch.close()
        channel.close_all(self._schedules)
        self._schedules = []

    def _refresh(self) -> None:
        """Asks for the present numbers; those of a box that is over are known already."""
        if self._is_closed or "over" in self._heard:
            return
        self._heard.pop("usage", None)
        # A keeper that is gone has left its last words to be read.
        with contextlib.suppress(OSError):
            channel.tell(self._keeper, {"usage": True})
        until = time.monotonic() + _ANSWER_S_MAX
        while "usage" not in self._heard and self._listen(until):
            continue

    def _listen(self, until: float) -> bool:
        """Takes one message in; False if there is none in time, or never will be."""
        if self._is_closed:
            return False
        left_s = max(0.0, until - time.monotonic())
        if not select.select([self._keeper], [], [], left_s)[0]:
            return False
        heard = channel.hear(self._keeper)
        if heard is None:
            self._is_closed = True
            return False
        message, descriptors = heard
        if message.get("group"):
            self._switch = Switch(message["group"], *descriptors)
        if message.pop("schedule", False):
            self._schedules += descriptors
        self._built += message.pop("built", 0)
        # Of several faults the first is the cause.
        self._heard = self._heard | message | _fault_of(self._heard)
        return True

    def _raise_fault(self) -> None:
        if "fault" in self._heard:
            raise SandboxFault(self._heard["fault"])


def _status(code: int) -> int:
    """An exit status in the convention of subprocess, of a program that passes one on.

    >>> _status(1), _status(137)
    (1, -9)
    """
    return _SIGNALLED - code if code > _SIGNALLED else code


def _fault_of(heard: dict[str, Any]) -> dict[str, Any]:
    return {"fault": heard["fault"]} if "fault" in heard else {}
