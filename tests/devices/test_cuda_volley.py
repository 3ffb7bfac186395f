"""One call on several GPUs, on an imitation of their driver: no GPU has confirmed any of it."""

import importlib
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.devices.cuda.gate import Facts, Referee
from harness.devices.cuda.kernels import Kernels as RealKernels
from harness.devices.cuda.lane import Lane as RealLane
from harness.devices.cuda.volley import Volley, words_of
from harness.devices.device import DeviceFault, Foul, Memory
from harness.supervisor.verdict import CaseFailed

from .imitation import EPOCH_NS, STEP_NS, Kernels, Lane, Machine, SteppingWords, read, write

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
    is_early: bool = False
    writes_late_ns: int = 0

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
            machine.hold_up(self.stream, lambda: read(mailbox) == reveal)
            if self.is_early:
                machine.enqueue(self.stream, "said", lambda: write(mailbox + 64, done))
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
    referees: list[Referee] = field(default_factory=list)

    def __post_init__(self) -> None:
        torch: Any = importlib.import_module("torch")
        for rank in self.ranks:
            with self.machine.at(rank.device):
                self.referees.append(_referee(self.machine, rank.device))
        memory = torch.zeros(words_of(len(self.ranks)), dtype=torch.int32)
        words = SteppingWords(memory, self.machine)
        clock = lambda: self.machine.now_ns  # noqa: E731  (the host's clock)
        self.volley = Volley(self.machine, self.referees, words, clock)

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
        for _ in range(STEPS_MAX):
            self.machine.step()
            if not self.is_deaf and not any(
                self.machine.streams[r.stream].queue for r in self.ranks
            ):
                return
        raise CaseFailed("timed_out", "no answer")

    def hold(self) -> None:
        """The copies wait their turn on the referees' streams."""
        for rank, referee in zip(self.ranks, self.referees, strict=True):
            with self.machine.at(rank.device):
                copy = partial(rank.snapshot.copy_, rank.answer)
                self.machine.enqueue(referee.lane.handle, "hold", copy)


def _referee(machine: Machine, device: int) -> Referee:
    lane = Lane(machine, device, machine.stream(device))
    facts = Facts("cpu", multiprocessors=1, flush_bytes=PAGE, clock="stamps")
    kernels = cast("RealKernels", Kernels(machine, device))
    return Referee(machine, kernels, facts, cast("RealLane", lane))


def team(*takes_ns: int) -> Team:
    """Ranks whose work takes so long."""
    machine = Machine()
    return Team(machine, [Rank(machine, device, ns) for device, ns in enumerate(takes_ns)])


def test_every_rank_is_shown_its_input_and_its_answer_held() -> None:
    pair = team(WORK_NS, WORK_NS)
    pair.volley.shoot(pair)
    for rank in pair.ranks:
        assert rank.shared[:BYTES].eq(rank.device + 1).all()
        assert rank.snapshot.eq(rank.device + 2).all()


def test_the_time_of_a_call_is_that_of_its_slowest_rank() -> None:
    pair = team(WORK_NS, 4 * WORK_NS)
    shot = pair.volley.shoot(pair)
    assert 4 * WORK_NS <= 1000 * shot.time_us <= 4 * WORK_NS + 10 * STEP_NS
    assert shot.events_us == pytest.approx(shot.stamps_us, abs=10 * STEP_NS / 1000)


def test_clocks_that_are_an_hour_apart_are_never_compared() -> None:
    trio = team(WORK_NS, WORK_NS, WORK_NS)
    assert 1000 * trio.volley.shoot(trio).time_us < EPOCH_NS / 1000


def test_no_rank_starts_before_all_are_ready() -> None:
    pair = team(WORK_NS, WORK_NS)
    pair.machine.slow_ns["k_flush_write", 1] = 10 * WORK_NS
    shot = pair.volley.shoot(pair)
    flushed, started = pair.machine.when("k_flush_read"), pair.machine.when("k_stamp")
    assert max(flushed.values()) < min(started.values())
    assert shot.stagger_us <= 10 * STEP_NS / 1000


def test_the_stagger_bounds_how_far_apart_ranks_started() -> None:
    pair = team(WORK_NS, WORK_NS)
    # A device whose front end is slow to see the word.
    pair.machine.slow_ns["k_stamp", 1] = WORK_NS
    shot = pair.volley.shoot(pair)
    started, held = pair.machine.when("k_stamp"), pair.machine.when("k_witness")
    apart_ns = started[1] - started[0]
    assert apart_ns >= WORK_NS
    assert 1000 * shot.stagger_us >= apart_ns
    whole_ns = max(held.values()) - min(started.values())
    assert whole_ns <= 1000 * (shot.time_us + shot.stagger_us)


def test_a_rank_that_says_done_early_is_held_as_it_is() -> None:
    pair = team(WORK_NS, WORK_NS)
    pair.ranks[1].is_early = True
    pair.volley.shoot(pair)
    assert pair.ranks[0].snapshot.eq(2).all()
    assert pair.ranks[1].snapshot.eq(POISON).all()


def test_a_rank_that_writes_after_its_end_is_named() -> None:
    pair = team(WORK_NS, WORK_NS)
    pair.ranks[1].writes_late_ns = 2 * STEP_NS
    pair.machine.slow_ns["hold", 1] = 20 * STEP_NS
    with pytest.raises(Foul, match=r"rank 1: \d+ places changed") as foul:
        pair.volley.shoot(pair)
    assert foul.value.verdict == "late_write"


def test_a_worker_that_never_ends_leaves_no_queue_waiting() -> None:
    pair = team(WORK_NS, WORK_NS)
    pair.is_deaf = True
    with pytest.raises(CaseFailed, match="no answer"):
        pair.volley.shoot(pair)
    assert not any(stream.queue for stream in pair.machine.streams.values())
    pair.is_deaf = False
    pair.volley.shoot(pair)
    assert all(rank.snapshot.eq(rank.device + 2).all() for rank in pair.ranks)


def test_ranks_that_never_came_to_be_enqueued_are_let_go() -> None:
    """The gate of each opens for a worker that waits behind it."""
    pair = team(WORK_NS, WORK_NS)
    pair.is_gone = True
    with pytest.raises(CaseFailed, match="gone"):
        pair.volley.shoot(pair)
    for _ in range(STEPS_MAX):
        pair.machine.step()
    assert not any(stream.queue for stream in pair.machine.streams.values())


def test_a_device_that_hangs_is_named_by_its_rank() -> None:
    pair = team(WORK_NS, WORK_NS)
    pair.machine.slow_ns["k_flush_read", 1] = 10**15
    with pytest.raises(DeviceFault, match="rank 1 did not get ready within 1 s"):
        pair.volley.shoot(pair)


def test_one_rank_of_several_can_be_called_alone() -> None:
    pair = team(WORK_NS, WORK_NS)
    first = Team(pair.machine, pair.ranks[:1])
    first.volley = pair.volley
    first.referees = pair.referees[:1]
    first.volley.shoot(first)
    assert pair.ranks[0].snapshot.eq(2).all()
    assert pair.ranks[1].snapshot.eq(0).all()
