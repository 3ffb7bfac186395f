"""Spot checks are revealed in another way than the calls they check, so they never rank."""

from harness.time.policy import policy_for
from harness.time.process import DRY, SPOT, Block, Process, Sample, make_block, select_times_us

SAMPLES = (Sample(10.0), Sample(50.0, (SPOT,)), Sample(12.0), Sample(11.0))


def block(*samples: Sample) -> Block:
    return make_block(samples, (), 1.0, policy_for("cuda", "ranked"))


def test_a_spot_check_does_not_count() -> None:
    assert select_times_us(SAMPLES) == [10.0, 12.0, 11.0]
    assert block(*SAMPLES).value_us < 13


def test_a_spot_check_does_not_count_in_a_spoilt_block_either() -> None:
    dry = tuple(Sample(20.0, (DRY,)) for _ in range(4))
    assert select_times_us(SAMPLES + dry) == [10.0, 12.0, 11.0, *4 * [20.0]]


def test_a_block_of_spot_checks_alone_is_repeated_and_has_a_value() -> None:
    alone = block(*3 * [Sample(50.0, (SPOT,))])
    assert alone.is_spoilt
    assert alone.value_us == 50.0


def test_the_spread_of_null_calls_leaves_spot_checks_out() -> None:
    nulls = (*tuple(Sample(float(us)) for us in range(11)), Sample(900.0, (SPOT,)))
    process = Process((), nulls, (block(*SAMPLES),), (), {}, "ok")
    assert process.null_spread_us == 8.0
    assert Process((), (), (block(*SAMPLES),), (), {}, "ok").null_spread_us == 0.0
