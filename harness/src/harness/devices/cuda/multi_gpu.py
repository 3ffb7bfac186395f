"""Several GPUs of one host as one device: one GPU per rank, and the time of the slowest.

Each has its own referee, and one word of the host releases all. Clocks of different devices are
never compared. A rank's duration is read on its own device, and the longest one counts. By the
host's clock, all ranks started within the stagger. So from the first reveal to the last answer, the
call took at most the longest duration plus the stagger.
"""

import ctypes
import importlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, cast

from harness.devices.cuda import rules
from harness.devices.cuda.device import CudaDevice, time_by_host
from harness.devices.cuda.driver import WAIT_EQUAL, Driver
from harness.devices.cuda.gate import ARMED_S_MAX, CONTEXT_ERRORS, Referee, device_fault
from harness.devices.cuda.memory import CudaInputs, RankCall
from harness.devices.cuda.rules import CallTiming
from harness.devices.device import Device, DeviceFault, Memory, RuleViolation, Window
from harness.time.estimators import quantile

RELEASE_S_MAX = 1.0

# Each word has its own cache line.
_WORDS_APART = 16
_WORD_BYTES = 4

_STAGGER_SHARE = 0.9

Result = TypeVar("Result")


def count_flag_words(ranks: int) -> int:
    """Return how many words of memory a call needs."""
    return (1 + ranks) * _WORDS_APART


class HostFlags:
    """Words of the host that every device reaches: the release word, then one per rank."""

    def __init__(self, memory: Any) -> None:
        """`memory` is a tensor of 32-bit words."""
        self._memory = memory
        self._words = (ctypes.c_uint32 * memory.numel()).from_address(memory.data_ptr())

    def at(self, index: int) -> int:
        """Return the address of a word."""
        return int(self._memory.data_ptr()) + index * _WORDS_APART * _WORD_BYTES

    def say(self, word: int) -> None:
        """Write the release word."""
        self._words[0] = word

    def has_said(self, index: int, word: int) -> bool:
        """Return whether a device has written this word."""
        return bool(self._words[index * _WORDS_APART] == word)


class MultiGpuCall:
    """Makes one call on all referees.

    Raises DeviceFault, CaseFailed (the window's), RuleViolation.
    """

    def __init__(
        self,
        driver: Driver,
        referees: Sequence[Referee],
        words: HostFlags,
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

    def shoot(self, window: Window) -> CallTiming:
        """Time one call, revealed strictly: the slowest rank's time, and the stagger."""
        calls = [RankCall.of(window, rank) for rank in range(len(window.memories))]
        with ExitStack() as stack:
            for referee, _ in self._pair_with_referees(calls):
                stack.enter_context(referee.lane.entered())
            window.show()
            try:
                window.go()
                is_armed = window.armed(ARMED_S_MAX)
                stagger_us = self._release_all(calls)
                self._finish(calls)
            except CONTEXT_ERRORS as error:
                self._abandon(calls)
                raise device_fault(calls, error) from error
            except DeviceFault:
                with suppress(DeviceFault):
                    self._abandon(calls)
                raise
            except BaseException:
                self._abandon(calls)
                raise
            timings = []
            for referee, _ in self._pair_with_referees(calls):
                with referee.lane.current():
                    timings.append(referee.shot("strict", is_armed=is_armed))
        return replace(max(timings, key=lambda timing: timing.time_us), stagger_us=stagger_us)

    def _pair_with_referees(self, calls: Sequence[RankCall]) -> Iterator[tuple[Referee, RankCall]]:
        return zip(self._referees, calls, strict=False)

    def _release_all(self, calls: Sequence[RankCall]) -> float:
        """Start all ranks at once; return within how many microseconds they started."""
        ranks = range(len(calls))
        self._round += 1
        for rank in ranks:
            with self._referees[rank].lane.current():
                self._enqueue_rank(rank, calls[rank])
        calls[0].window.hold()
        for referee, call in self._pair_with_referees(calls):
            with referee.lane.current():
                referee.seal(call)
        for rank in ranks:
            self._await(rank, partial(self._driver.is_over, self._ready[rank]), "get ready")
        began_ns = self._clock_ns()
        self._words.say(self._round)
        for rank in ranks:
            self._await(rank, partial(self._words.has_said, 1 + rank, self._round), "start")
        return (self._clock_ns() - began_ns) / 1000

    def _enqueue_rank(self, rank: int, call: RankCall) -> None:
        """Enqueue a rank's part, all of it behind the release word."""
        referee, driver = self._referees[rank], self._driver
        stream = referee.lane.handle
        referee.clear(call)
        referee.flush()
        driver("cuEventRecord", self._ready[rank], stream)
        driver("cuStreamWaitValue32_v2", stream, self._words.at(0), self._round, WAIT_EQUAL)
        referee.start()
        driver("cuStreamWriteValue32_v2", stream, self._words.at(1 + rank), self._round, 0)
        referee.reveal(call)
        referee.commit(call)

    def _finish(self, calls: Sequence[RankCall]) -> None:
        """Wait for the workers, which run from now on: a collective may need their threads."""
        calls[0].window.wait()
        for rank, (referee, call) in enumerate(self._pair_with_referees(calls)):
            call.has_answered = True
            try:
                with referee.lane.current():
                    referee.finish(call)
                    referee.require_stillness()
            except RuleViolation as violation:
                raise RuleViolation(violation.verdict, f"rank {rank}: {violation}") from violation

    def _abandon(self, calls: Sequence[RankCall]) -> None:
        """Release everything, so that no queue of any rank waits for ever."""
        self._words.say(self._round)
        faults: list[DeviceFault] = []
        for referee, call in self._pair_with_referees(calls):
            try:
                with referee.lane.current():
                    referee.abandon(call)
            except DeviceFault as fault:
                faults.append(fault)
        if faults:
            raise faults[0]

    def _await(self, rank: int, is_done: Callable[[], bool], action: str) -> None:
        ends_at = time.monotonic() + RELEASE_S_MAX
        while not is_done():
            if time.monotonic() > ends_at:
                raise DeviceFault(f"rank {rank} did not {action} within {RELEASE_S_MAX:.0f} s")


class MultiGpuDevice(Device):
    """One GPU per rank, each with its own referee. Every method can raise DeviceFault.

    Its tier is G2 at most: all inputs are revealed strictly, and workers run from the release on.
    No input is visible before a clock starts, so no call is suspicious.
    """

    name = "cuda"

    def __init__(self, ranks: int, *, is_frozen: bool) -> None:
        self.members = [
            CudaDevice(index, is_frozen=is_frozen, runs_beside=False) for index in range(ranks)
        ]
        self.place = self.members[0].place
        self.tier = "G0"

    def prepare(self) -> None:
        """Open every GPU; all must have the same architecture."""
        torch: Any = importlib.import_module("torch")
        for member in self.members:
            member.prepare()
        architectures = sorted({member.architecture for member in self.members})
        if len(architectures) > 1:
            raise DeviceFault(
                f"the ranks' GPUs are of several architectures: {', '.join(architectures)}"
            )
        self.architecture = architectures[0]
        self.tier = rules.lowest_tier(member.tier for member in self.members)
        words = torch.zeros(count_flag_words(len(self.members)), dtype=torch.int32, pin_memory=True)
        referees = [member.referee for member in self.members]
        self._multi_gpu_call = MultiGpuCall(self.members[0].driver, referees, HostFlags(words))
        torch.cuda.set_device(self.place)

    def describe(self) -> dict[str, str]:
        """Return the description of the first GPU, with the UUIDs of all."""
        descriptions = [member.describe() for member in self.members]
        uuids = ", ".join(description["gpu_uuid"] for description in descriptions)
        return descriptions[0] | {"gpus": str(len(descriptions)), "gpu_uuid": uuids}

    def of_rank(self, rank: int) -> Device:
        """Return the GPU of a rank."""
        return self.members[rank]

    def allocate(self, size: int, role: str) -> Memory:
        """Return memory of the first rank's GPU."""
        return self.members[0].allocate(size, role)

    def timed(self, window: Window) -> float:
        """Time one call: the time of the slowest rank, in microseconds."""
        timing = self._time_call(window)
        self.flags = timing.flags
        cast("CudaInputs", window.memories[0][0]).shots.append(timing)
        return timing.time_us

    def run_untimed(self, window: Window) -> None:
        """Make one call without keeping its time."""
        self._time_call(window)

    def _time_call(self, window: Window) -> rules.CallTiming:
        if self.tier == "G2":
            return self._multi_gpu_call.shoot(window)
        return time_by_host(self.members, window)

    def statistics(self, inputs: Memory) -> dict[str, float]:
        """Return the number of ranks, and the 90th percentile of their stagger."""
        staggers = [timing.stagger_us for timing in cast("CudaInputs", inputs).shots]
        statistics = {"ranks": float(len(self.members))}
        return statistics | ({"stagger_us": quantile(staggers, _STAGGER_SHARE)} if staggers else {})

    def time_fma(self) -> float:
        """Time the chain on every GPU in turn; return the slowest time."""
        return max(self._each_member(CudaDevice.time_fma))

    def calibration(self) -> dict[str, float]:
        """Return the largest value of each figure."""
        figures: dict[str, float] = {}
        for member_figures in self._each_member(CudaDevice.calibration):
            for name, value in member_figures.items():
                figures[name] = max(value, figures.get(name, value))
        return figures

    def unfit(self) -> list[str]:
        """Return why a GPU is unfit, with its rank."""
        return [
            f"rank {rank}: {reason}"
            for rank, member in enumerate(self.members)
            for reason in member.unfit()
        ]

    def close(self) -> None:
        """Release all GPUs."""
        for member in self.members:
            member.close()

    def _each_member(self, ask: Callable[[CudaDevice], Result]) -> Iterator[Result]:
        for member in self.members:
            with member.referee.lane.current():
                yield ask(member)
