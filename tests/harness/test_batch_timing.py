"""A batch is many input sets in two memories, each in its own piece."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from harness.check.buffers import RankBuffers
from harness.check.inputs import probe_shape
from harness.check.judging import JudgeContext
from harness.devices.device import CpuDevice, SharedMemory
from harness.messages import CaseFailed
from harness.problem import Case
from harness.time.batches import Batch, BatchMemory, ShortCase, count_sets, measure_batch
from harness.worker import protocol

from .test_gate import Team, Warmer
from .test_inputs import CASE, KEY, Teacher

MIB = 1024**2


@pytest.mark.parametrize(
    ("time_us", "set_bytes", "sets"),
    [(5.0, 4 * MIB, 80), (25.0, 4 * MIB, 0), (0.0, 4 * MIB, 0), (19.0, 700 * MIB, 0)],
)
def test_only_short_calls_that_fit_are_batched(time_us: float, set_bytes: int, sets: int) -> None:
    assert count_sets(time_us, set_bytes, 60 * MIB) == sets


def test_a_batch_never_takes_more_than_a_gibibyte() -> None:
    for set_bytes in (4096, MIB, 100 * MIB, 512 * MIB):
        assert count_sets(1.0, set_bytes, 60 * MIB) * set_bytes <= 1024 * MIB


def test_every_set_lies_in_a_piece_of_its_own(torch: Any) -> None:
    author = Teacher(lambda seed: torch.full((2000,), float(seed % 1000)), lambda data: data * 2)
    shape = probe_shape(author, CASE, KEY)
    shelf = BatchMemory(CpuDevice(is_frozen=False), shape, 3)
    seats = [RankBuffers(shelf, shape) for _ in range(3)]
    for number, seat in enumerate(seats):
        seat.prepare(author.data(CASE, number))
        seat.show()
    inputs, _ = shelf.memories
    assert isinstance(inputs, SharedMemory)
    step = shelf.steps[0]
    firsts = [inputs.bytes[at * step :][:4].view(torch.float32).item() for at in range(3)]
    assert firsts == [0.0, 1.0, 2.0]
    for seat in seats:
        seat.close()
    shelf.close()


def test_a_processor_has_no_such_column(torch: Any) -> None:
    author = Teacher(lambda _: torch.ones(3), lambda data: data * 2)
    short = ShortCase(Case("n=4", {"seed": 1}), probe_shape(author, CASE, KEY), iter(()), 5.0, 1.0)
    court: Any = JudgeContext(author, CpuDevice(is_frozen=True), None)  # type: ignore[arg-type]
    team: Any = None
    assert measure_batch(court, team, short, 0.0) == {}


class Judge(Teacher):
    """A teacher who also checks, set by set."""

    def each(self, _case: Case, count: int, work: Callable[[int], Any]) -> list[Any]:
        """One after the other."""
        return [work(rank) for rank in range(count)]

    def is_together(self, _case: Case) -> bool:
        """Sets do not talk to each other."""
        return False

    def complaint(self, case: Case, data: Any, output: Any) -> str | None:
        """Whether it is the answer."""
        return None if bool((output == self.answer(case, data)).all()) else "wrong"


class Doubling(Team):
    """A worker that answers so many sets of a batch."""

    def __init__(self, sets: int) -> None:
        super().__init__()
        self._sets = sets
        self.messages: list[bytes] = []
        self.first_inputs: list[float] = []
        self.batch: Batch | None = None

    def send(self, rank: int, message: bytes, descriptors: Any = ()) -> None:
        """Keeps it."""
        super().send(rank, message, descriptors)
        self.messages.append(message)

    def receive(self, rank: int, until: float, limit: str) -> bytes:
        """Doubles the first sets."""
        assert self.batch is not None
        ((inputs, outputs),) = self.batch.memories
        self.first_inputs = values(inputs.bytes[: 3 * 4096])[::1024].tolist()
        end = self._sets * 4096
        outputs.bytes[:end] = doubled(inputs.bytes[:end])
        return super().receive(rank, until, limit)


def values(memory: Any) -> Any:
    """The values of four bytes each in a memory."""
    import torch

    return memory.view(torch.float32)


def doubled(memory: Any) -> Any:
    """Twice as much, in a memory of the same size."""
    import torch

    return (values(memory) * 2).view(torch.uint8)


@pytest.mark.parametrize("answered", [3, 2])
def test_every_set_of_a_batch_is_sent_answered_and_judged(torch: Any, answered: int) -> None:
    author = Judge(lambda seed: torch.full((1024,), float(seed)), lambda data: data * 2)
    short = ShortCase(CASE, probe_shape(author, CASE, KEY), iter((20, 30)), 5.0, 1.0)
    team: Any = Doubling(answered)
    court: Any = JudgeContext(author, CpuDevice(is_frozen=True), Warmer())  # type: ignore[arg-type]
    with Batch(court, team, short, 3) as team.batch:
        if answered == 3:
            assert team.batch.call(7, 1e9) > 0
        else:
            with pytest.raises(CaseFailed) as failed:
                team.batch.call(7, 1e9)
            assert failed.value.message == "rank 2: the output was never written"
    assert team.first_inputs == [7.0, 20.0, 30.0]
    layout, order = team.messages
    assert (layout[:1], order[:1]) == (protocol.CASE, protocol.GO)
    assert json.loads(layout[1:])["sets"] == 3
