"""Stops and resumes a control group by files that are open already: a few microseconds."""

import os
import time
from dataclasses import dataclass

FREEZE_S_MAX = 5.0


@dataclass(frozen=True)
class Words:
    """What is written to a freezer, and what it says once all is frozen."""

    freeze: bytes
    thaw: bytes
    frozen: bytes


_WORDS = {
    1: Words(b"FROZEN", b"THAWED", b"FROZEN\n"),
    2: Words(b"1", b"0", b"frozen 1"),
}
_STATE_BYTES_MAX = 128


@dataclass(frozen=True)
class Switch:
    """The open files of a freezer, of control groups v1 or v2: where to write, where to read.

    `spent` counts the group's processor time, in v2 alone. A group that is gone holds nothing that
    could run, so it counts as frozen.
    """

    version: int
    write: int
    read: int
    spent: int = -1

    @property
    def descriptors(self) -> tuple[int, ...]:
        """The files that are open, in the order of the fields."""
        return tuple(one for one in (self.write, self.read, self.spent) if one >= 0)

    def freeze(self) -> bool:
        """Stops everything in the group where it is; False if something still runs."""
        words = _WORDS[self.version]
        if not self._turn(words.freeze):
            return True
        until = 0.0
        while not self._is_in(words.frozen):
            now = time.monotonic()
            until = until or now + FREEZE_S_MAX
            if now > until:
                return False
        return True

    def thaw(self) -> None:
        """Lets everything in the group run on."""
        self._turn(_WORDS[self.version].thaw)

    def close(self) -> None:
        """Closes the files, without a change to the group."""
        for one in self.descriptors:
            os.close(one)

    def cpu_us(self) -> int | None:
        """Microseconds of processor that the group has used, where they are counted."""
        if self.spent < 0:
            return None
        try:
            return int(os.pread(self.spent, _STATE_BYTES_MAX, 0).split(maxsplit=2)[1])
        except (IndexError, OSError, ValueError):
            return None

    def _turn(self, word: bytes) -> bool:
        try:
            os.pwrite(self.write, word, 0)
        except OSError:
            return False
        return True

    def _is_in(self, state: bytes) -> bool:
        try:
            return state in os.pread(self.read, _STATE_BYTES_MAX, 0)
        except OSError:
            return True
