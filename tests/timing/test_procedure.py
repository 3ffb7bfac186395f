"""The measurement of one case in one fresh process of each side."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from random import Random

import pytest

from harness.messages import CaseFailed
from harness.time.policy import policy_for
from harness.time.procedure import ClockWarmUp, measure_process
from harness.time.process import COLD, Sample
from tests.timing.fake import FakeKernel, FakeMachine, FakePair
from tests.timing.measuring import QUIET, measure_fake, one_process, plan_for


def batched(pairs: list[str]) -> Iterator[tuple[str, str]]:
    return zip(pairs[::2], pairs[1::2], strict=True)


RESTLESS = FakeMachine(cv=0.2)


def test_a_quiet_kernel_stops_at_the_first_look() -> None:
    process = one_process()
    assert [look.action for look in process.looks] == ["stop"]
    assert len(process.pairs) == plan_for().policy.looks[0]


def test_noise_adds_pairs_at_the_looks_alone() -> None:
    process = one_process(machine=FakeMachine(cv=0.06), plan=plan_for(wall_s=100.0))
    looks = plan_for().policy.looks
    assert len(process.pairs) in looks[1:]
    assert [look.pairs for look in process.looks] == list(looks[: len(process.looks)])


def test_a_kernel_that_never_settles_ends_at_the_last_look() -> None:
    process = one_process(machine=RESTLESS, plan=plan_for(wall_s=100.0))
    assert process.looks[-1].action == "give up"
    assert len(process.pairs) == plan_for().policy.looks[-1]


def test_time_ends_a_measurement_but_not_before_the_first_look() -> None:
    process = one_process(FakeKernel(time_us=1000.0), RESTLESS, plan_for(wall_s=0.001))
    assert len(process.pairs) == plan_for().policy.looks[0]
    assert process.looks[-1].action == "give up"


def test_a_quick_answer_is_enough_for_a_wide_precision() -> None:
    assert len(one_process(plan=plan_for(mode="benchmark")).pairs) == 5


def test_blocks_take_turns_and_neither_side_is_always_first() -> None:
    fake = FakePair(1, FakeKernel(), QUIET)
    measure_process(fake, plan_for(), fake.now_s, Random(1).randrange)
    pairs = [order for order in fake.orders if len(order) == 2]
    assert len(pairs) == 6
    assert all({first, second} == {"AB", "BA"} for first, second in batched(pairs))


def test_a_submission_cannot_predict_whose_turn_it_is() -> None:
    orders = set()
    for seed in range(20):
        fake = FakePair(1, FakeKernel(), QUIET)
        measure_process(fake, plan_for(), fake.now_s, Random(seed).randrange)
        orders.add(tuple(fake.orders))
    assert len(orders) > 4


def test_the_yardstick_is_measured_before_the_first_call() -> None:
    fake = FakePair(1, FakeKernel(residue=0.5), QUIET)
    process = measure_process(fake, plan_for(), fake.now_s, Random(1).randrange)
    assert fake.orders[:3] == ["B", "B", "A"]
    assert max(process.first.kept_us) < 110.0
    assert min(process.pairs[0].b.kept_us) > 140.0


@pytest.mark.parametrize("draw", [0, 2])
def test_the_number_of_warm_ups_is_drawn(draw: int) -> None:
    fake = FakePair(1, FakeKernel(), QUIET)
    process = measure_process(fake, plan_for(), fake.now_s, lambda most: min(draw, most - 1))
    assert len(process.warm_ups) == plan_for().policy.warm_ups[0] + draw


def test_slow_first_calls_leave_no_fewer_timed_calls() -> None:
    usual = one_process(FakeKernel(time_us=1000.0))
    slow = one_process(FakeKernel(time_us=1000.0, slow_calls=10, slow_factor=20.0))
    assert len(slow.pairs[-1].a.samples) == len(usual.pairs[-1].a.samples) == 8
    assert len(slow.samples) > 0.7 * len(usual.samples)


def test_a_slow_kernel_gets_blocks_that_fit_its_time() -> None:
    process = one_process(FakeKernel(time_us=200_000.0))
    assert {len(pair.a.samples) for pair in process.pairs} == {1}
    assert process.samples_us


def test_large_inputs_limit_the_calls_of_a_block() -> None:
    fake = FakePair(1, FakeKernel(), QUIET)
    plan = plan_for()
    limited = type(plan)(plan.policy, inputs_max=2)
    process = measure_process(fake, limited, fake.now_s, Random(1).randrange)
    assert {len(block.samples) for pair in process.pairs for block in (pair.a, pair.b)} == {2}


def test_the_first_call_of_a_block_does_not_count() -> None:
    process = one_process(machine=FakeMachine(cv=0.0))
    block = process.pairs[0].a
    assert COLD in block.samples[0].flags
    assert max(block.kept_us) < 101.0 < block.samples[0].time_us


def test_calls_in_which_the_clock_waited_do_not_count() -> None:
    process = one_process(machine=FakeMachine(waited=0.1))
    kept = [time for pair in process.pairs for time in pair.a.kept_us]
    assert len(kept) < len(process.samples) - len(process.pairs)


def test_nobody_gains_by_having_most_calls_dropped() -> None:
    process = one_process(machine=FakeMachine(waited=0.6))
    for pair in process.pairs:
        if sum("waited" in sample.flags for sample in pair.a.samples[1:]) > 5:
            assert len(pair.a.kept_us) == len(pair.a.samples) - 1


def test_launches_that_nothing_hides_are_host_sync() -> None:
    assert one_process(FakeKernel(dry=0.3)).grade == "host_sync"


def test_launches_that_outlast_the_gate_are_launch_bound() -> None:
    assert one_process(FakeKernel(late=0.3)).grade == "launch_bound"


def test_rare_slow_calls_are_bimodal() -> None:
    process = one_process(FakeKernel(slow_share=0.2, slow_by=1.0))
    assert process.grade == "bimodal"


def test_slow_calls_on_a_crowded_machine_accuse_nobody() -> None:
    machine = FakeMachine(cv=0.003, is_crowded=True)
    assert one_process(FakeKernel(slow_share=0.2, slow_by=1.0), machine).grade == "ok"


def test_one_crowded_moment_does_not_excuse_slow_calls() -> None:
    class CrowdedOnce(FakePair):
        """A machine that is crowded at the first pair of blocks alone."""

        def is_crowded(self) -> bool:
            return len(self.orders) <= 4

    fake = CrowdedOnce(1, FakeKernel(slow_share=0.2, slow_by=1.0), QUIET)
    process = measure_fake(fake, plan_for())
    assert [pair.is_crowded for pair in process.pairs][:2] == [True, False]
    assert process.grade == "bimodal"


def test_slow_calls_are_found_in_short_blocks() -> None:
    grades = [
        one_process(FakeKernel(3000.0, slow_share=1 / 6, slow_by=2.0), seed=seed).grade
        for seed in range(20)
    ]
    assert grades.count("bimodal") > 10


def test_honest_kernels_on_a_noisy_machine_are_seldom_bimodal() -> None:
    machine = FakeMachine(cv=0.01, process_sd=0.0025, wander_sd=0.004, outliers=0.05)
    grades = [one_process(FakeKernel(1000.0), machine, seed=seed).grade for seed in range(100)]
    assert grades.count("bimodal") < 6


def test_a_slow_null_call_does_not_excuse_slow_calls() -> None:
    plan = replace(plan_for(), nulls=tuple(Sample(time_us) for time_us in (20.0,) * 19 + (2000.0,)))
    process = one_process(FakeKernel(slow_share=0.2, slow_by=1.0), plan=plan)
    assert process.grade == "bimodal"


def test_what_the_machine_does_to_both_is_not_bimodal() -> None:
    assert one_process(machine=FakeMachine(outliers=0.1)).grade == "ok"


def test_a_submission_that_drifts_alone_has_a_trend() -> None:
    plan = plan_for(looks=(14,))
    assert one_process(FakeKernel(drift=0.001), QUIET, plan).grade == "trend"


def test_times_without_a_gate_say_so() -> None:
    plan = plan_for()
    assert one_process(plan=type(plan)(plan.policy, is_gated=False)).grade == "in_process"


def test_a_wrong_answer_ends_the_measurement() -> None:
    class Wrong(FakePair):
        def measure(self, order: str, calls: Mapping[str, int]) -> dict[str, tuple[Sample, ...]]:
            if len(self.orders) > 6:
                raise CaseFailed("wrong_answer", "no")
            return super().measure(order, calls)

    fake = Wrong(1, FakeKernel(), QUIET)
    with pytest.raises(CaseFailed, match="no"):
        measure_process(fake, plan_for(), fake.now_s, Random(1).randrange)


def test_the_same_samples_give_the_same_result() -> None:
    assert one_process(seed=3) == one_process(seed=3)
    assert one_process(seed=3) != one_process(seed=4)


def warm_up(fake: FakePair, clock: ClockWarmUp) -> float:
    """Warm up the clock of a fake device; return how long it took, in seconds."""
    began_s = fake.now_s()
    clock.warm_up(fake, fake.now_s)
    return fake.now_s() - began_s


def test_the_clock_is_warmed_up_until_it_is_stable_and_once_in_a_run() -> None:
    fake = FakePair(1, FakeKernel(), FakeMachine(cv=0.0))
    clock = ClockWarmUp(policy_for("cuda", "ranked"))
    assert 0.2 <= warm_up(fake, clock) < 2.0
    assert [warm_up(fake, clock) < 0.05 for _ in range(3)] == [True] * 3
    fake.fma_us *= 1.02
    assert warm_up(fake, clock) >= 0.2, "the device has become slower"
    assert warm_up(fake, clock) < 0.05
    assert warm_up(fake, ClockWarmUp(policy_for("cpu", "ranked"))) == 0.0


def test_a_clock_that_never_settles_is_warmed_up_for_a_bounded_time() -> None:
    fake = FakePair(1, FakeKernel(), FakeMachine(cv=2.0))
    clock = ClockWarmUp(policy_for("cuda", "ranked"))
    assert [1.9 < warm_up(fake, clock) < 2.1 for _ in range(2)] == [True] * 2
