"""Ranks on imitated GPUs, and the window of their calls."""

import importlib
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

from harness.devices.cuda.driver import Kernels as RealKernels
from harness.devices.cuda.gate import DeviceFacts, Referee
from harness.devices.cuda.gate import RefereeStream as RealLane
from harness.devices.cuda.multi_gpu import MultiGpuCall, count_flag_words
from harness.devices.device import Memory
from harness.messages import CaseFailed

from .fake_driver import Kernels, Lane, Machine, SteppingWords, read, write

BYTES = 1024
PAGE = 4096
POISON = 0xA5
WORK_NS = 50_000
STEPS_MAX = 10_000


@dataclass
class Rank:
    """A worker on its GPU: a stream, the memories, and when its answer is ready."""

    machine: Machine
    device: int
    takes_ns: int = WORK_NS
    is_gated: bool = True
    is_early: bool = False
    writes_late_ns: int = 0
    # What its first call loads, before it can work.
    loads_ns: int = 0

    def __post_init__(self) -> None:
        torch: Any = importlib.import_module("torch")
        self.stream = self.machine.stream(self.device)
        self.private = torch.full((BYTES,), self.device + 1, dtype=torch.uint8)
        self.shared = torch.zeros(BYTES + PAGE, dtype=torch.uint8)
        self.answer = torch.full((BYTES,), POISON, dtype=torch.uint8)
        self.snapshot = torch.zeros(BYTES, dtype=torch.uint8)

    def memories(self) -> tuple[Memory, Memory]:
        """As the referee sees them."""
        at = self.shared.data_ptr()
        inputs = SimpleNamespace(bytes=self.private, address=at, size=BYTES, mailbox=at + BYTES)
        outputs = SimpleNamespace(address=self.answer.data_ptr(), size=BYTES)
        return cast("tuple[Memory, Memory]", (inputs, outputs))

    def enqueue(self, reveal: int, done: int) -> None:
        """A gated call: the answer is the input and one more."""
        mailbox, machine = self.shared.data_ptr() + BYTES, self.machine
        with machine.at(self.device):
            if self.is_gated:
                machine.hold_up(self.stream, lambda: read(mailbox) == reveal)
            if self.is_early:
                machine.enqueue(self.stream, "said", lambda: write(mailbox + 64, done))
            if self.loads_ns:
                machine.enqueue(self.stream, "load", lambda: None, self.loads_ns)
                self.loads_ns = 0
            machine.enqueue(self.stream, "work", self._compute, self.takes_ns)
            machine.enqueue(self.stream, "done", lambda: write(mailbox + 64, done))
            if self.writes_late_ns:
                machine.enqueue(self.stream, "late", self._spoil, self.writes_late_ns)

    def _compute(self) -> None:
        self.answer.copy_(self.shared[:BYTES] + 1)

    def _spoil(self) -> None:
        self.answer.fill_(0)


@dataclass
class Team:
    """The window of a call, and the volley that shoots it."""

    machine: Machine
    ranks: list[Rank]
    nonce: bytes = bytes(range(1, 17))
    is_deaf: bool = False
    is_gone: bool = False
    has_faulted: bool = False
    referees: list[Referee] = field(default_factory=list)

    def __post_init__(self) -> None:
        torch: Any = importlib.import_module("torch")
        for rank in self.ranks:
            with self.machine.at(rank.device):
                self.referees.append(_referee(self.machine, rank.device))
        memory = torch.zeros(count_flag_words(len(self.ranks)), dtype=torch.int32)
        words = SteppingWords(memory, self.machine)
        clock = lambda: self.machine.now_ns  # noqa: E731  (the host's clock)
        self.volley = MultiGpuCall(self.machine, self.referees, words, clock)

    @property
    def memories(self) -> list[tuple[Memory, Memory]]:
        """Of each rank."""
        return [rank.memories() for rank in self.ranks]

    def show(self) -> None:
        """The private inputs are what they are."""

    def go(self) -> None:
        """All workers enqueue their calls."""
        reveal, done = (int.from_bytes(self.nonce[at : at + 4], "little") | 1 for at in (0, 4))
        for rank in self.ranks:
            rank.enqueue(reveal, done)

    def armed(self, within_s: float) -> bool:
        """They have, unless one has died."""
        if self.is_gone:
            raise CaseFailed("crashed", "gone")
        return within_s > 0

    def wait(self) -> None:
        """Until every worker's stream is empty."""
        if self.has_faulted:
            raise CaseFailed("crashed", "an illegal memory access")
        for _ in range(STEPS_MAX):
            self.machine.step()
            if not self.is_deaf and not any(
                self.machine.streams[r.stream].queue for r in self.ranks
            ):
                return
        raise CaseFailed("timed_out", "no answer")

    def hold(self) -> None:
        """The copies wait their turn on the referees' streams; none can in a broken context."""
        if self.has_faulted:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        for rank, referee in zip(self.ranks, self.referees, strict=True):
            with self.machine.at(rank.device):
                copy = partial(rank.snapshot.copy_, rank.answer)
                self.machine.enqueue(referee.lane.handle, "hold", copy)


def _referee(machine: Machine, device: int) -> Referee:
    lane = Lane(machine, device, machine.stream(device))
    facts = DeviceFacts("cpu", multiprocessors=1, flush_bytes=PAGE, clock="stamps")
    kernels = cast("RealKernels", Kernels(machine, device))
    return Referee(machine, kernels, facts, cast("RealLane", lane))


def team(*takes_ns: int) -> Team:
    """Ranks whose work takes this long."""
    machine = Machine()
    return Team(machine, [Rank(machine, device, ns) for device, ns in enumerate(takes_ns)])
