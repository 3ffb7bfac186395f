"""One call on several GPUs: a referee on each, and one word of the host that releases them all.

Clocks of different devices are never compared. A rank's duration is read on its own device and the
longest one counts. By the host's clock all of them started within the stagger, so from the first
reveal to the last answer it took at most the longest duration and the stagger.
"""

import ctypes
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from harness.devices.cuda.call import Call
from harness.devices.cuda.driver import WAIT_EQUAL, Driver, DriverError
from harness.devices.cuda.gate import ARMED_S_MAX, Referee
from harness.devices.cuda.rules import Shot
from harness.devices.device import DeviceFault, Foul, Window

RELEASE_S_MAX = 1.0

# Each word has a line of the cache to itself.
_WORDS_APART = 16
_WORD_BYTES = 4


def words_of(ranks: int) -> int:
    """How many words of memory a volley needs."""
    return (1 + ranks) * _WORDS_APART


class Words:
    """Words of the host that every device reaches: one to start by, then what each rank says."""

    def __init__(self, memory: Any) -> None:
        """`memory` is a tensor of 32-bit words."""
        self._memory = memory
        self._words = (ctypes.c_uint32 * memory.numel()).from_address(memory.data_ptr())

    def at(self, place: int) -> int:
        """The address of a word."""
        return int(self._memory.data_ptr()) + place * _WORDS_APART * _WORD_BYTES

    def say(self, word: int) -> None:
        """Writes the word to start by."""
        self._words[0] = word

    def has_said(self, place: int, word: int) -> bool:
        """Whether a device has written this word."""
        return bool(self._words[place * _WORDS_APART] == word)


class Volley:
    """Shoots one call on all referees. Errors: DeviceFault, CaseFailed (the window's), Foul."""

    def __init__(
        self,
        driver: Driver,
        referees: Sequence[Referee],
        words: Words,
        clock_ns: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self._driver = driver
        self._referees = referees
        self._words = words
        self._clock_ns = clock_ns
        self._round = 0
        self._ready: list[ctypes.c_void_p] = []
        for referee in referees:
            with referee.lane.current():
                self._ready.append(driver.pointer("cuEventCreate", 0))

    def shoot(self, window: Window) -> Shot:
        """One call, revealed strictly: the slowest rank's time, and the stagger."""
        calls = [Call.of(window, rank) for rank in range(len(window.memories))]
        with ExitStack() as stack:
            for referee, _ in self._pairs(calls):
                stack.enter_context(referee.lane.entered())
            window.show()
            try:
                window.go()
                is_armed = window.armed(ARMED_S_MAX)
                stagger_us = self._release(calls)
                self._finish(calls)
            except DriverError as error:
                self._abandon(calls)
                # A worker's fault may have taken our context with it: then its end is the reason.
                window.wait()
                raise DeviceFault(f"a device failed under living workers: {error}") from error
            except DeviceFault:
                with suppress(DeviceFault):
                    self._abandon(calls)
                raise
            except BaseException:
                self._abandon(calls)
                raise
            shots = [self._shot(referee, is_armed=is_armed) for referee, _ in self._pairs(calls)]
        return replace(max(shots, key=lambda shot: shot.time_us), stagger_us=stagger_us)

    def _pairs(self, calls: Sequence[Call]) -> Iterator[tuple[Referee, Call]]:
        return zip(self._referees, calls, strict=False)

    def _release(self, calls: Sequence[Call]) -> float:
        """Lets all ranks start at once; returns within how many microseconds they did."""
        ranks = range(len(calls))
        self._round += 1
        for rank in ranks:
            with self._referees[rank].lane.current():
                self._load(rank, calls[rank])
        calls[0].window.hold()
        for referee, call in self._pairs(calls):
            with referee.lane.current():
                referee.seal(call)
        for rank in ranks:
            self._await(rank, partial(self._driver.is_over, self._ready[rank]), "get ready")
        began_ns = self._clock_ns()
        self._words.say(self._round)
        for rank in ranks:
            self._await(rank, partial(self._words.has_said, 1 + rank, self._round), "start")
        return (self._clock_ns() - began_ns) / 1000

    def _load(self, rank: int, call: Call) -> None:
        """Enqueues a rank's part, all of it behind the word that releases it."""
        referee, drive = self._referees[rank], self._driver
        stream = referee.lane.handle
        referee.clear(call)
        referee.flush()
        drive("cuEventRecord", self._ready[rank], stream)
        drive("cuStreamWaitValue32_v2", stream, self._words.at(0), self._round, WAIT_EQUAL)
        referee.start()
        drive("cuStreamWriteValue32_v2", stream, self._words.at(1 + rank), self._round, 0)
        referee.reveal(call)
        referee.commit(call)

    def _finish(self, calls: Sequence[Call]) -> None:
        """The workers run from now on: a collective may need a thread of theirs to get on."""
        calls[0].window.wait()
        for rank, (referee, call) in enumerate(self._pairs(calls)):
            call.is_said = True
            try:
                with referee.lane.current():
                    referee.finish(call)
                    referee.require_stillness()
            except Foul as foul:
                raise Foul(foul.verdict, f"rank {rank}: {foul}") from foul

    def _abandon(self, calls: Sequence[Call]) -> None:
        """Releases everything, so that no queue of any rank waits for ever."""
        self._words.say(self._round)
        faults: list[DeviceFault] = []
        for referee, call in self._pairs(calls):
            try:
                with referee.lane.current():
                    referee.abandon(call)
            except DeviceFault as fault:
                faults.append(fault)
        if faults:
            raise faults[0]

    def _shot(self, referee: Referee, *, is_armed: bool) -> Shot:
        with referee.lane.current():
            return referee.shot("strict", is_armed=is_armed)

    def _await(self, rank: int, is_so: Callable[[], bool], what: str) -> None:
        until = time.monotonic() + RELEASE_S_MAX
        while not is_so():
            if time.monotonic() > until:
                raise DeviceFault(f"rank {rank} did not {what} within {RELEASE_S_MAX:.0f} s")
