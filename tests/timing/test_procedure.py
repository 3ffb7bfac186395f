"""One case in one process: how often it is measured, and its grade."""

from dataclasses import replace
from random import Random

import pytest

from harness.time.policy import History, policy_for
from harness.time.procedure import measure_process
from harness.time.process import MeasurementPlan, Process, Sample, is_bimodal, make_block
from tests.timing.fake import FakeKernel, FakeMachine, FakeSource
from tests.timing.measuring import QUIET, known, one_pass, plan_for


def looks_of(process: Process) -> list[int]:
    return [look.blocks for look in process.looks]


def test_a_quiet_kernel_stops_at_the_first_look() -> None:
    process = one_pass()
    assert looks_of(process) == [8]
    assert process.looks[-1].action == "stop"
    assert process.grade == "ok"
    assert len(process.samples_us) == 8 * 25


def test_noise_adds_blocks_at_the_looks_alone() -> None:
    process = one_pass(machine=FakeMachine(cv=0.03))
    assert looks_of(process) == [8, 12, 18, 27, 40][: len(process.looks)]
    assert len(process.looks) > 1
    assert [look.action for look in process.looks[:-1]] == ["more"] * (len(process.looks) - 1)


def test_a_kernel_that_never_settles_is_noisy() -> None:
    process = one_pass(machine=FakeMachine(cv=0.3))
    assert process.looks[-1].action == "give up"
    assert len(process.counted) <= 40
    assert process.grade == "noisy"


@pytest.mark.parametrize(("device_s", "wall_s"), [(0.3, 9.0), (9.0, 0.3)])
def test_a_pass_ends_with_its_budget(device_s: float, wall_s: float) -> None:
    plan = plan_for(device_s=device_s, wall_s=wall_s, target=1e-9)
    process = one_pass(FakeKernel(time_us=5000.0), FakeMachine(cv=0.05), plan)
    device_used_s = sum(process.samples_us) / 1e6
    assert device_used_s < 1.3 * min(device_s, wall_s)
    assert 8 <= len(process.counted) < 12
    assert process.grade == "noisy"


def test_noise_that_tells_nothing_new_ends_the_pass() -> None:
    plan = plan_for(device_s=0.1, target=1e-6)
    last = [
        one_pass(machine=FakeMachine(cv=0.02), plan=plan, seed=seed).looks[-1] for seed in range(9)
    ]
    assert {look.action for look in last} == {"give up"}
    assert 18 <= min(look.blocks for look in last) < 40


def test_a_short_measurement_lasts_its_least_wall() -> None:
    process = one_pass(machine=FakeMachine(cv=0.0001, overhead_us=10.0))
    assert sum(block.wall_s for block in process.blocks) >= 0.1 or looks_of(process)[-1] == 40


@pytest.mark.parametrize("draw", [0, 1, 2, 3])
def test_the_number_of_warm_ups_is_drawn(draw: int) -> None:
    fake = FakeSource(1, FakeKernel(), QUIET)
    process = measure_process(fake, plan_for(), fake.now_s, lambda _: draw)
    assert len(process.warm_ups) == 3 + draw


def test_null_calls_come_before_and_after_the_blocks() -> None:
    assert len(one_pass(machine=FakeMachine(null_us=5.0)).nulls) == 60


def test_slow_null_calls_are_fewer() -> None:
    nulls = one_pass(machine=FakeMachine(null_us=5.0, overhead_us=30_000.0)).nulls
    assert 10 <= len(nulls) < 60


def test_reference_kernels_take_turns_in_every_block() -> None:
    (first, *_) = one_pass().blocks
    assert [one.name for one in first.references] == ["fma", "copy", "fma", "copy"]
    assert [one.slot for one in first.references] == [5, 11, 17, 23]


def test_short_blocks_take_turns_from_block_to_block() -> None:
    blocks = one_pass(FakeKernel(time_us=250_000.0), plan=plan_for(wall_s=9.0)).blocks
    assert {one.name for block in blocks for one in block.references} == {"fma", "copy"}
    assert all(len(block.samples) == 3 for block in blocks)


def test_contaminated_samples_do_not_count() -> None:
    process = one_pass(machine=FakeMachine(cv=0.003, contaminated=0.05))
    assert process.dropped > 0
    assert process.grade == "ok"


def test_a_contaminated_block_is_repeated() -> None:
    process = one_pass(
        machine=FakeMachine(cv=0.003, contaminated=0.2), plan=plan_for(repeats_max=99)
    )
    assert any(not block.is_counted for block in process.blocks)
    assert not any(block.is_contaminated for block in process.counted)
    assert process.grade == "ok"


def test_on_a_crowded_machine_all_samples_count_at_last() -> None:
    process = one_pass(machine=FakeMachine(cv=0.003, contaminated=0.9))
    assert sum(not block.is_counted for block in process.blocks) == 8
    assert len(process.samples_us) == sum(len(block.samples) for block in process.counted)
    assert process.grade == "noisy"


@pytest.mark.parametrize(
    ("share_s", "repeated", "lasts_s"), [(60, 8, 2), (1.2, 4, 1.2), (0.1, 0, 0.4)]
)
def test_blocks_are_repeated_as_far_as_the_stage_has_time(
    share_s: float, repeated: int, lasts_s: float
) -> None:
    plan = MeasurementPlan(policy_for("cuda", "benchmark", share_s), History())
    machine = FakeMachine(cv=0.003, contaminated=0.9, overhead_us=10_000.0)
    process = one_pass(FakeKernel(time_us=10_000.0), machine, plan)
    assert len(process.counted) == 5
    assert sum(not block.is_counted for block in process.blocks) == repeated
    assert sum(block.wall_s for block in process.blocks) < lasts_s


def test_launches_that_nothing_hides_are_host_sync() -> None:
    assert one_pass(FakeKernel(dry=0.9)).grade == "host_sync"


def test_launches_that_outlast_the_gate_are_launch_bound() -> None:
    process = one_pass(FakeKernel(late=0.3))
    assert process.grade == "launch_bound"
    assert process.dropped == 0


def test_rare_slow_calls_are_bimodal() -> None:
    assert one_pass(FakeKernel(slow_share=0.15, slow_by=0.4)).grade == "bimodal"


def test_slow_calls_must_be_spread_to_be_bimodal() -> None:
    quiet, slow = ([Sample(100.0)] * 25, [Sample(100.0)] * 20 + [Sample(900.0)] * 5)
    burst, spread = (
        [make_block(tuple(samples), (), 0.1, policy_for("cuda", "ranked")) for samples in series]
        for series in ([quiet] * 6 + [slow] * 2, [slow] * 8)
    )
    assert not is_bimodal(burst, ())
    assert is_bimodal(spread, ())


def test_slow_calls_on_a_noisy_machine_accuse_nobody() -> None:
    plan = known(plan_for("cpu"))
    slow = FakeKernel(slow_share=0.15, slow_by=0.4)
    assert one_pass(slow, plan=plan).grade == "bimodal"
    assert one_pass(slow, replace(QUIET, factor=1.1), plan).grade == "noisy"


def test_what_the_machine_does_to_all_is_not_bimodal() -> None:
    machine = FakeMachine(cv=0.002, outliers=0.08)
    assert one_pass(machine=machine, plan=plan_for(target=0.02)).grade == "ok"


def test_waking_late_from_null_calls_too_is_not_bimodal() -> None:
    calls, nulls = (
        (*[Sample(time_us)] * 20, *[Sample(time_us + 40.0)] * 5) for time_us in (130.0, 30.0)
    )
    blocks = [make_block(calls, (), 0.1, policy_for("cuda", "ranked"))] * 8
    assert is_bimodal(blocks, ())
    assert not is_bimodal(blocks, nulls)


def test_a_submission_that_drifts_alone_has_a_trend() -> None:
    process = one_pass(FakeKernel(drift=0.0002))
    assert process.looks[-1].trend_p < 0.01
    assert process.grade == "trend"


def test_a_machine_that_drifts_is_noisy() -> None:
    machine = FakeMachine(cv=0.001, throttle_at=500, throttle_by=0.03)
    process = one_pass(machine=machine, plan=plan_for(target=1e-9))
    assert process.looks[-1].trend_p < 0.01
    assert process.grade == "noisy"


def test_a_trend_is_looked_at_again() -> None:
    process = one_pass(FakeKernel(drift=0.0002), plan=plan_for(target=0.5))
    assert process.looks[0].action == "more"


def test_a_gpu_off_its_median_is_looked_at_again() -> None:
    process = one_pass(machine=replace(QUIET, factor=1.02), plan=known(plan_for()))
    assert process.looks[0].half_width < 0.0025
    assert process.looks[0].action == "more"


def test_a_reference_off_its_median_makes_a_pass_noisy() -> None:
    plan = known(plan_for("cpu"))
    assert one_pass(plan=plan).grade == "ok"
    slow = one_pass(machine=replace(QUIET, factor=1.1), plan=plan)
    assert slow.grade == "noisy"
    assert slow.deviation_max == pytest.approx(0.1, abs=0.01)


def test_times_without_a_gate_say_so() -> None:
    assert one_pass(plan=replace(plan_for(), is_gated=False)).grade == "in_process"


def test_slow_warm_ups_do_not_lessen_the_samples() -> None:
    honest = one_pass(FakeKernel(time_us=100.0))
    kernel = FakeKernel(time_us=100.0, slow_calls=6, slow_factor=5000.0)
    cheat = one_pass(kernel)
    assert len(cheat.samples_us) >= len(honest.samples_us)
    assert not cheat.blocks[0].is_counted


def test_blocks_begin_anew_a_bounded_number_of_times() -> None:
    process = one_pass(FakeKernel(time_us=100.0, slow_calls=30, slow_factor=5000.0))
    assert len(process.blocks) < 3 * 40


# A call of this kernel takes 6 ms by the wall, so the wall budget of the cpu device is scarce.
SCARCE_KERNEL = FakeKernel(time_us=5000.0)
SCARCE_PLAN = plan_for("cpu")


@pytest.mark.parametrize("slow_calls", [4, 7, 10, 20, 24])
@pytest.mark.parametrize("slow_factor", [1.3, 1.8, 2.5])
def test_slow_first_calls_do_not_reduce_the_timed_calls(
    slow_calls: int, slow_factor: float
) -> None:
    kernel = replace(SCARCE_KERNEL, slow_calls=slow_calls, slow_factor=slow_factor)
    for seed in range(5):
        steady = one_pass(SCARCE_KERNEL, QUIET, SCARCE_PLAN, seed)
        slow_first = one_pass(kernel, QUIET, SCARCE_PLAN, seed)
        assert len(slow_first.samples_us) >= 0.95 * len(steady.samples_us)


@pytest.mark.parametrize("slow_calls", [0, 10, 20, 30, 100, 10_000])
@pytest.mark.parametrize("slow_factor", [1.8, 2.5, 20.0])
def test_slow_first_calls_stay_within_the_wall_bound(slow_calls: int, slow_factor: float) -> None:
    kernel = replace(SCARCE_KERNEL, slow_calls=slow_calls, slow_factor=slow_factor)
    plan = replace(SCARCE_PLAN, policy=policy_for("cpu", "ranked", 0.7))
    assert plan.policy.wall_s_max == 0.7
    process = one_pass(kernel, QUIET, plan)
    walls_s = [block.wall_s for block in process.blocks]
    # The blocks before the first look are owed in any case; the last block may overrun.
    within_s = sum(walls_s[: -plan.policy.looks[0]])
    assert within_s <= 0.7


def test_calls_that_turn_slow_are_no_fewer_and_no_more_than_planned() -> None:
    class Tiring(FakeSource):
        def call(self) -> Sample:
            self._kernel = FakeKernel(time_us=5000.0 if self.calls < 10 else 50_000.0)
            return super().call()

    tiring = Tiring(1, FakeKernel(), QUIET)
    process = measure_process(tiring, SCARCE_PLAN, tiring.now_s, lambda _: 0)
    assert len(process.blocks) == SCARCE_PLAN.policy.looks[0]
    assert len({len(block.samples) for block in process.blocks}) == 1


def test_a_benchmark_takes_five_blocks_of_twenty() -> None:
    process = one_pass(plan=plan_for(mode="benchmark"))
    assert looks_of(process)[0] == 5
    assert len(process.blocks[0].samples) == 20


class _WrongError(Exception):
    """What a gated call raises for a wrong answer."""


class _Failing(FakeSource):
    """A source whose tenth call is wrong."""

    def call(self) -> Sample:
        if self.calls == 10:
            raise _WrongError
        return super().call()


def test_a_wrong_answer_ends_the_measurement() -> None:
    fake = _Failing(1, FakeKernel(), QUIET)
    with pytest.raises(_WrongError):
        measure_process(fake, plan_for(), fake.now_s, lambda _: 0)


def test_the_same_samples_give_the_same_result() -> None:
    assert one_pass(seed=7) == one_pass(seed=7)


class Ramping(FakeSource):
    """A device whose clock needs a hundred kernels to reach full speed."""

    def __init__(self, settles: bool) -> None:
        super().__init__(1, FakeKernel(), QUIET)
        self.settles = settles
        self.asked = 0

    def reference(self, name: str) -> float:
        self.asked += 1
        slowness = 1.0 + max(0, 100 - self.asked) / 50 if self.settles else 1.0 + self.asked / 500
        return slowness * super().reference(name)


def asked_before_blocks(device: Ramping, least_s: float, most_s: float) -> int:
    plan = plan_for(clock_s=(least_s, most_s))
    unwarmed = Ramping(device.settles)
    measure_process(unwarmed, plan_for(clock_s=(0.0, 0.0)), unwarmed.now_s, Random(1).randrange)
    measure_process(device, plan, device.now_s, Random(1).randrange)
    return device.asked - unwarmed.asked


def test_the_clock_is_warmed_until_it_stands_still() -> None:
    device = Ramping(settles=True)
    assert asked_before_blocks(device, 0.0, 60.0) >= 100


def test_a_clock_that_never_settles_is_warmed_for_a_bounded_time() -> None:
    device = Ramping(settles=False)
    assert asked_before_blocks(device, 0.0, 0.2) > 0
