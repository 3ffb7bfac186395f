"""An unfit machine must not be used for timing."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from harness.time.policy import History
from harness.time.process import (
    MeasurementPlan,
    NoisyMachine,
    Process,
    kernels_beyond,
    measure_when_fit,
    reference_deviations,
)
from tests.timing.fake import FakeKernel, FakeMachine, FakeSource
from tests.timing.measuring import KNOWN, QUIET, known, one_pass, plan_for


class Attempts:
    """Passes on machines that differ from attempt to attempt, and the pauses between them."""

    def __init__(self, plan: MeasurementPlan, *machines: FakeMachine) -> None:
        self._plan = plan
        self._machines: Iterator[FakeMachine] = iter(machines)
        self.passes = 0
        self.pauses: list[float] = []

    def __call__(self) -> Process:
        self.passes += 1
        return one_pass(machine=next(self._machines), plan=self._plan)

    def settle(self, *health: tuple[str, ...]) -> Process:
        said = iter(health)
        return measure_when_fit(self, self._plan, lambda: next(said, ()), self.pauses.append)


SLOW = replace(QUIET, factor=1.02)
CROWDED = replace(QUIET, factor=2.5)


def test_a_fit_machine_passes_once() -> None:
    attempts = Attempts(known(plan_for()), QUIET)
    assert attempts.settle().grade == "ok"
    assert attempts.pauses == []


def test_a_gpu_off_its_median_is_asked_once_more() -> None:
    attempts = Attempts(known(plan_for()), SLOW, QUIET)
    assert abs(attempts.settle().deviation_max) < 0.005
    assert attempts.pauses == [5.0]


def test_a_gpu_off_its_median_twice_is_noisy() -> None:
    attempts = Attempts(known(plan_for()), SLOW, SLOW, QUIET)
    with pytest.raises(NoisyMachine, match=r"reference \w+ is \+[12]\.\d+ % off"):
        attempts.settle()
    assert attempts.passes == 2


@pytest.mark.parametrize("factor", [1.1, 2.5, 0.4])
def test_a_cpu_off_its_median_is_noisy_and_kept(factor: float) -> None:
    attempts = Attempts(known(plan_for("cpu")), replace(QUIET, factor=factor))
    assert attempts.settle().grade == "noisy"
    assert attempts.passes == 1


@pytest.mark.parametrize(("off", "is_beyond"), [(0.9, False), (1.1, True), (-0.51, True)])
def test_a_limit_is_as_far_on_either_side(off: float, is_beyond: bool) -> None:
    assert (kernels_beyond({"fma": off}, {"fma": 1.0}) == ["fma"]) is is_beyond


def test_an_unknown_machine_is_not_gated() -> None:
    attempts = Attempts(plan_for(), CROWDED)
    assert attempts.settle().grade == "ok"


def test_an_unfit_device_is_not_even_tried() -> None:
    sick = FakeSource(1, FakeKernel(), FakeMachine(reasons=("thermal slowdown",)))
    attempts = Attempts(plan_for(), QUIET, QUIET)
    with pytest.raises(NoisyMachine, match="thermal slowdown"):
        measure_when_fit(attempts, plan_for(), sick.health, attempts.pauses.append)
    assert attempts.passes == 0


def test_a_device_that_falls_ill_during_a_pass_loses_it() -> None:
    attempts = Attempts(plan_for(), QUIET, QUIET)
    assert attempts.settle((), ("hardware slowdown",), (), ()).grade == "ok"
    assert attempts.passes == 2


def test_only_known_references_deviate() -> None:
    assert reference_deviations(KNOWN, History()) == {}
    assert reference_deviations({"fma": 51.0}, known(plan_for()).history) == {
        "fma": pytest.approx(0.02)
    }
