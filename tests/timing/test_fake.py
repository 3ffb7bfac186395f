"""The fake device does what it is told, in a repeatable way."""

from statistics import fmean

import pytest

from tests.timing.fake import FakeKernel, FakeMachine, FakeSource


def test_a_seed_gives_the_same_samples() -> None:
    machine = FakeMachine(cv=0.1, outliers=0.1, contaminated=0.2)
    one, other = (FakeSource(4, FakeKernel(), machine) for _ in range(2))
    assert [one.call() for _ in range(50)] == [other.call() for _ in range(50)]


def test_time_passes_with_calls_alone() -> None:
    fake = FakeSource(1, FakeKernel(time_us=1000.0), FakeMachine(cv=0.0, overhead_us=500.0))
    assert fake.now_s() == 0.0
    fake.call()
    assert fake.now_s() == pytest.approx(0.0015)


def test_the_clock_shows_whole_steps() -> None:
    fake = FakeSource(1, FakeKernel(time_us=3.1), FakeMachine(cv=0.0, step_us=0.5))
    times = [fake.call().time_us for _ in range(2000)]
    assert set(times) == {3.0, 3.5}
    assert fmean(times) == pytest.approx(3.1, abs=0.03)


def test_a_throttle_slows_references_too() -> None:
    fake = FakeSource(1, FakeKernel(), FakeMachine(cv=0.0, throttle_at=1, throttle_by=0.5))
    before = fake.reference("fma")
    fake.call()
    fake.call()
    assert fake.reference("fma") == pytest.approx(1.5 * before)
