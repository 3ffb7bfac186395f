"""The time of a case from its processes, and its record."""

import gzip
import json
from dataclasses import asdict, replace
from math import log, sqrt
from statistics import fmean

import pytest

from harness.time.combination import (
    combine_processes,
    compress_records,
    make_record,
    run_figures,
)
from harness.time.process import COLD
from harness.vocabulary import GRADES
from tests.timing.fake import FakeKernel, FakeMachine
from tests.timing.measuring import QUIET, one_case, one_process, plan_for


def test_a_quiet_case_is_ok_and_right() -> None:
    time = one_case(FakeKernel(time_us=200.0))
    assert time.grade == "ok"
    assert time.time_us == pytest.approx(200.0, rel=0.01)
    assert time.yardstick_us == pytest.approx(100.0, rel=0.01)
    assert time.interval_us[0] < time.time_us < time.interval_us[1]
    assert len(time.process_us) == 3


def test_a_time_is_in_units_of_the_frozen_yardstick() -> None:
    plan = replace(plan_for(), unit_us=50.0)
    time = one_case(FakeKernel(time_us=200.0), plan=plan)
    assert time.yardstick_us == 50.0
    assert time.time_us == pytest.approx(100.0, rel=0.01)
    assert time.statistics["yardstick_measured_us"] == pytest.approx(100.0, rel=0.01)


@pytest.mark.parametrize("factor", [0.5, 1.0, 3.0])
def test_a_machine_that_is_slow_today_does_not_change_a_score(factor: float) -> None:
    machine = FakeMachine(cv=0.003, factor=factor)
    plan = replace(plan_for(), unit_us=100.0)
    assert one_case(FakeKernel(time_us=200.0), machine, plan).time_us == pytest.approx(
        200, rel=0.01
    )


def test_a_speed_that_wanders_hardly_widens_the_interval() -> None:
    wander = 0.05
    assert one_case(machine=FakeMachine(cv=0.003, wander_sd=wander)).error < 0.15 * wander


def test_what_is_known_of_processes_is_the_least_error() -> None:
    plan = plan_for(sigma=0.02)
    time = one_case(plan=plan)
    assert time.error == pytest.approx(0.02 / sqrt(3), rel=0.2)


def test_processes_that_differ_widen_the_interval() -> None:
    calm = one_case()
    differing = one_case(machine=FakeMachine(cv=0.003, process_sd=0.05))
    assert differing.error > 3 * calm.error


def test_the_handshake_is_neither_sides() -> None:
    machine = FakeMachine(cv=0.003, null_us=40.0)
    time = one_case(FakeKernel(time_us=200.0), machine)
    assert time.time_us == pytest.approx(200.0, rel=0.01)
    assert time.null_us == pytest.approx([40.0] * 3)
    assert time.statistics["handshake_us"] == pytest.approx(40.0)


def test_a_large_handshake_has_a_name() -> None:
    assert one_case(machine=FakeMachine(cv=0.003, null_us=40.0)).grade == "handshake_bound"


def test_an_empty_call_still_takes_some_time() -> None:
    machine = FakeMachine(cv=0.003, null_us=40.0)
    assert one_case(FakeKernel(time_us=0.001), machine).time_us > 1.0


def test_slow_calls_in_one_process_rank_the_plain_mean() -> None:
    usual = [one_process(seed=1), one_process(seed=2)]
    slow = one_process(FakeKernel(slow_share=0.2, slow_by=1.0), seed=3)
    plan = plan_for()
    assert combine_processes([*usual, slow], plan).grade == "bimodal"
    assert combine_processes([slow], plan).time_us > 112.0


def test_a_kernel_that_is_slow_in_most_calls_is_ranked_by_them() -> None:
    time = one_case(FakeKernel(slow_share=0.85, slow_by=0.15))
    assert time.time_us > 112.0


@pytest.mark.parametrize(("blocks", "slow_by"), [(6, 0.1), (6, 2.0), (5, 0.5), (4, 20.0)])
def test_a_kernel_that_is_slow_in_some_blocks_is_ranked_by_all_its_calls(
    blocks: int, slow_by: float
) -> None:
    plan = replace(plan_for(), unit_us=100.0)
    kernel = FakeKernel(1000.0, slow_blocks=blocks, slow_by=slow_by)
    processes = [one_process(kernel, plan=plan, seed=seed) for seed in (1, 2, 3)]
    calls = [sample for process in processes for sample in process.samples]
    mean_us = fmean(sample.time_us for sample in calls if COLD not in sample.flags)
    time = combine_processes(processes, plan)
    assert time.grade == "bimodal"
    assert time.time_us > 0.99 * mean_us


@pytest.mark.parametrize("blocks", [4, 6])
def test_blocks_in_which_both_are_slow_are_the_machines(blocks: int) -> None:
    slow = FakeKernel(1000.0, slow_blocks=blocks, slow_by=0.5)
    assert one_case(slow, yardstick=slow).grade == "ok"


def test_one_slow_block_of_a_run_is_chance() -> None:
    slow = one_process(FakeKernel(1000.0, slow_blocks=6, slow_by=0.5))
    usual = [one_process(FakeKernel(1000.0), seed=seed) for seed in (2, 3)]
    time = combine_processes([slow, *usual], plan_for())
    assert time.grade == "ok"
    assert time.time_us == pytest.approx(1000.0, rel=0.01)


@pytest.mark.parametrize("residue", [0.05, 0.2])
def test_who_slows_the_yardstick_gains_less_than_the_interval(residue: float) -> None:
    honest = one_case()
    cheat = one_case(FakeKernel(residue=residue))
    assert cheat.statistics["residue"] > 0
    width = log(honest.interval_us[1] / honest.time_us)
    assert log(honest.time_us / cheat.time_us) < 2 * width


def test_an_honest_kernel_has_no_residue() -> None:
    residues = [one_case(seed=seed).statistics["residue"] for seed in range(1, 30)]
    assert max(residues) < 0.001


def test_a_crowded_machine_is_noisy() -> None:
    assert one_case(machine=FakeMachine(cv=0.003, is_crowded=True)).grade == "noisy"


def test_a_short_kernel_on_a_quiet_machine_is_not_noisy() -> None:
    plan = plan_for(sigma_us=2.0)
    time = one_case(FakeKernel(time_us=20.0), QUIET, plan, yardstick=FakeKernel(time_us=25.0))
    low_us, high_us = time.interval_us
    assert high_us / low_us > 1.2
    assert time.grade == "ok"


def test_a_wide_interval_is_noisy() -> None:
    assert one_case(machine=FakeMachine(process_sd=0.3)).grade == "noisy"


def test_a_clock_that_waits_in_many_calls_is_noisy() -> None:
    assert one_case(machine=FakeMachine(cv=0.003, waited=0.5)).grade == "noisy"


def test_one_drifting_process_of_three_is_chance() -> None:
    plan = plan_for(looks=(14,))
    drifting = one_process(FakeKernel(drift=0.0001), QUIET, plan)
    calm = [one_process(plan=plan, seed=seed) for seed in (2, 3)]
    assert combine_processes([drifting, *calm], plan).grade == "ok"
    assert combine_processes([drifting, drifting, calm[0]], plan).grade == "trend"


def test_one_dry_process_of_three_names_the_case() -> None:
    dry = one_process(FakeKernel(dry=0.3))
    assert combine_processes([dry, one_process(seed=2)], plan_for()).grade == "host_sync"


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_run_says_what_could_hide_in_its_handshake(device: str) -> None:
    machine = FakeMachine(cv=0.003, null_us=20.0, null_spread_us=10.0)
    time = one_case(machine=machine, plan=plan_for(device))
    sigma, tie_us = run_figures([time])
    assert sigma == pytest.approx(time.error * sqrt(3))
    assert tie_us == (10.0 if device == "cpu" else pytest.approx(8.0, abs=1.5))


def test_a_run_without_times_hides_nothing() -> None:
    assert run_figures([]) == (0.0, 0.0)


def test_ranks_that_started_apart_can_hide_that_much_more() -> None:
    plan = plan_for("cuda")
    processes = [one_process(plan=plan)]
    apart = combine_processes(processes, replace(plan, stagger_us=3.0))
    assert apart.statistics["hideable_us"] == 3.0


def test_the_statistics_are_plain_numbers() -> None:
    time = one_case()
    assert all(type(value) is float for value in time.statistics.values())
    assert time.grade in GRADES


def test_a_record_holds_every_sample_of_both_sides() -> None:
    plan = plan_for()
    process = one_process()
    time = combine_processes([process], plan)
    packed = compress_records({"n=4": make_record([process], plan)})
    assert packed == compress_records({"n=4": make_record([process], plan)})
    case = json.loads(gzip.decompress(packed))["cases"]["n=4"]
    assert case["time"] == json.loads(json.dumps(asdict(time)))
    (record,) = case["processes"]
    for side, blocks in (("A", [p.a for p in process.pairs]), ("B", [p.b for p in process.pairs])):
        kept = [pair[side]["time_us"] for pair in record["pairs"]]
        assert kept == [[sample.time_us for sample in block.samples] for block in blocks]
    assert record["first"]["time_us"] == [s.time_us for s in process.first.samples]
