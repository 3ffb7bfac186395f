"""A batch is many input sets in two memories, each in its own piece."""

from typing import Any

import pytest

from harness.check.inputs import RankBuffers, probe_shape
from harness.check.judging import JudgeContext
from harness.devices.cpu import CpuDevice
from harness.devices.device import SharedMemory
from harness.problem import Case
from harness.time.unranked import BatchMemory, ShortCase, count_sets, measure_batch

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
