"""The time of a case, its interval, and its grade."""

import json
from dataclasses import replace
from math import exp, log
from statistics import fmean

import pytest

from harness.messages import GRADES, CaseReport, RunReport, from_line, to_line
from harness.time.combination import CaseTime, combine_processes, run_figures
from tests.timing.fake import FakeKernel, FakeMachine
from tests.timing.measuring import QUIET, known, one_case, one_pass, plan_for


def test_a_quiet_case_is_ok_and_right() -> None:
    found = one_case(FakeKernel(time_us=1000.0))
    low, high = found.interval_us
    assert found.grade == "ok"
    assert found.time_us == pytest.approx(1000.0, rel=0.003)
    assert low < found.time_us < high
    assert len(found.process_us) == 3


def test_the_machines_own_deviation_is_a_floor() -> None:
    found = one_case(FakeKernel(time_us=1000.0), replace(QUIET, cv=0.0001))
    assert found.error == pytest.approx(0.0015 / 3**0.5, rel=1e-6)
    assert found.freedom == 20


def test_processes_that_differ_widen_the_interval() -> None:
    found = one_case(FakeKernel(time_us=1000.0), replace(QUIET, speed_sd=0.05))
    assert found.error > 0.005
    assert found.freedom == 22


def test_a_single_noisy_process_says_that_it_is() -> None:
    plan = plan_for(mode="benchmark")
    found = one_case(FakeKernel(time_us=1000.0), FakeMachine(cv=0.3), plan)
    assert found.grade == "noisy"
    assert found.error > 0.01


def test_a_measured_deviation_takes_the_place_of_the_default() -> None:
    plan = plan_for()
    told = replace(plan, history=replace(plan.history, sigma_run=((1000.0, 0.2),)))
    assert one_case(plan=told).error == pytest.approx(0.2 / 3**0.5)


def test_short_cpu_calls_have_honest_intervals() -> None:
    short = one_case(FakeKernel(time_us=100.0), plan=plan_for("cpu"))
    long = one_case(FakeKernel(time_us=5500.0), plan=plan_for("cpu"))
    assert short.error > 0.05
    assert long.error < 0.003


def test_the_handshake_is_not_the_submissions() -> None:
    machine = replace(QUIET, null_us=8.0, null_spread_us=1.0)
    found = one_case(FakeKernel(time_us=500.0), machine)
    assert found.time_us == pytest.approx(500.4, abs=1.5)
    assert found.statistics["raw_us"] == pytest.approx(508.5, abs=1.5)
    assert found.null_us == pytest.approx([8.1, 8.5, 8.9], abs=0.1)
    assert found.grade == "ok"


def test_a_slowed_null_call_is_not_believed() -> None:
    plan = known(plan_for(), null_us=5.0)
    found = one_case(FakeKernel(time_us=500.0), replace(QUIET, null_us=40.0), plan)
    assert found.statistics["handshake_us"] == 5.0


def test_a_quick_null_call_is_believed() -> None:
    plan = known(plan_for(), null_us=50.0)
    found = one_case(FakeKernel(time_us=500.0), replace(QUIET, null_us=8.0), plan)
    assert found.statistics["handshake_us"] == 8.0


def test_a_large_handshake_has_a_name() -> None:
    machine = replace(QUIET, null_us=8.0)
    found = one_case(FakeKernel(time_us=50.0), machine)
    assert found.grade == "handshake_bound"
    assert found.statistics["raw_us"] == pytest.approx(58.0, abs=0.5)


def test_an_empty_call_still_takes_some_time() -> None:
    machine = FakeMachine(null_us=30.0)
    found = one_case(FakeKernel(time_us=0.0), machine, plan_for("cpu"))
    assert found.process_us == pytest.approx([1.5, 1.5, 1.5])
    assert found.grade == "handshake_bound"


def test_a_crowded_machine_does_not_lengthen_short_calls() -> None:
    machine = FakeMachine(null_us=30.0, null_spread_us=5000.0)
    found = one_case(FakeKernel(time_us=1000.0), machine, plan_for("cpu"))
    low, high = found.interval_us
    assert low < found.time_us < high
    assert 1000.0 < found.time_us <= found.statistics["raw_us"]


def test_what_the_handshake_hides_makes_the_error_larger() -> None:
    plan = plan_for(sigma_run=((1.0, 0.01),))
    found = one_case(FakeKernel(time_us=100.0), replace(QUIET, null_us=100.0), plan)
    assert found.error == pytest.approx(0.02 / 3**0.5, rel=0.05)


def test_slow_calls_in_one_process_rank_the_plain_mean() -> None:
    plan = plan_for()
    slow = FakeKernel(slow_share=0.15, slow_by=0.4)
    processes = [one_pass(plan=plan, seed=seed) for seed in (1, 2)]
    found = combine_processes([*processes, one_pass(slow, plan=plan, seed=3)], plan)
    assert found.grade == "bimodal"
    assert found.process_us[2] == pytest.approx(106.0, abs=2.0)


def test_one_noisy_process_of_three_is_chance() -> None:
    plan = plan_for()
    noisy = replace(one_pass(plan=plan), grade="noisy")
    quiet = one_pass(plan=plan, seed=2)
    assert combine_processes([noisy, quiet, quiet], plan).grade == "ok"
    assert combine_processes([noisy, noisy, quiet], plan).grade == "noisy"


def test_one_dry_process_of_three_is_told() -> None:
    plan = plan_for()
    dry = one_pass(FakeKernel(dry=0.9), plan=plan)
    assert combine_processes([one_pass(plan=plan), dry], plan).grade == "host_sync"


@pytest.mark.parametrize("factor", [0.5, 0.9, 1.1, 2.5])
def test_a_machine_that_is_off_widens_the_interval_to_hold_it(factor: float) -> None:
    plan = known(plan_for("cpu"))
    found = one_case(FakeKernel(time_us=5500.0), replace(QUIET, factor=factor), plan)
    low, high = found.interval_us
    assert found.grade == "noisy"
    assert low < 5500.0 < high
    assert found.statistics["reference_deviation"] == pytest.approx(factor - 1, abs=0.01)


def test_times_without_a_gate_are_in_process_and_whole() -> None:
    plan = replace(plan_for(), is_gated=False)
    found = one_case(FakeKernel(time_us=100.0), replace(QUIET, null_us=20.0), plan)
    assert found.grade == "in_process"
    assert found.time_us == pytest.approx(120.0, rel=0.01)


def test_every_statistic_fits_a_report() -> None:
    found = one_case(machine=replace(QUIET, null_us=5.0), plan=known(plan_for()))
    case = CaseReport("a", "time", "passed", **vars(found))
    report = RunReport("passed", "time", "", 1.0, "00", [case])
    assert from_line(to_line(report)) == report
    assert case.grade in GRADES
    assert found.statistics["best_us"] <= found.statistics["p5_us"] <= found.statistics["q1_us"]
    assert found.statistics["q3_us"] <= found.statistics["p99_us"] <= found.statistics["worst_us"]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_run_says_what_could_hide_in_its_handshake(device: str) -> None:
    machine = replace(QUIET, null_us=30.0, null_spread_us=10.0)
    times = [one_case(machine=machine, plan=plan_for(device), seed=seed) for seed in (1, 2)]
    sigma, tie_us = run_figures(times)
    assert sigma == pytest.approx(fmean(time.statistics["sigma_run"] for time in times))
    assert tie_us == (30.0 if device == "cpu" else pytest.approx(8.0, abs=1.0))


def test_a_run_without_times_hides_nothing() -> None:
    assert run_figures([]) == (0.0, 0.0)


def test_the_statistics_are_plain_numbers() -> None:
    assert json.dumps(one_case().statistics, allow_nan=False)


def test_ranks_that_started_apart_are_tied_by_so_much_more() -> None:
    """A rank gains at most the stagger from another one's late start."""
    plan = plan_for()
    process = one_pass(machine=FakeMachine(null_us=5.0, null_spread_us=1.0), plan=plan)
    _, alone_us = run_figures([combine_processes([process], plan)])
    _, tie_us = run_figures([combine_processes([process], replace(plan, stagger_us=7.0))])
    assert tie_us == pytest.approx(alone_us + 7.0)


def probed(machine: FakeMachine) -> CaseTime:
    plan = plan_for("cpu")
    known_plan = replace(plan, history=replace(plan.history, probes=(35.0,) * 5))
    return one_case(FakeKernel(time_us=5000.0), replace(machine, probe_us=35.0), known_plan)


def test_a_machine_that_is_slow_today_does_not_slow_a_score() -> None:
    found = probed(replace(QUIET, factor=1.2))
    assert found.time_us == pytest.approx(5000.0, rel=0.005)
    assert found.statistics["raw_us"] == pytest.approx(6000.0, rel=0.005)


def test_processes_on_a_clock_that_strays_agree() -> None:
    times = probed(replace(QUIET, speed_sd=0.05)).process_us
    assert max(times) < 1.01 * min(times)


def test_a_machine_without_a_known_probe_is_measured_by_its_own() -> None:
    plan = plan_for("cpu")
    found = one_case(FakeKernel(time_us=5000.0), replace(QUIET, probe_us=35.0, factor=1.2), plan)
    # The fastest tenth of normal samples lies 1.75 deviations below their mean.
    assert found.time_us == pytest.approx(6000.0 * (1 - 1.75 * QUIET.cv), rel=0.005)


@pytest.mark.parametrize("calls", [20, 40, 60])
def test_calls_while_a_neighbour_was_busy_do_not_count(calls: int) -> None:
    """The neighbour arrives after some calls of each process, and the probes show it."""
    found = probed(replace(QUIET, throttle_at=calls, throttle_by=0.6))
    assert found.time_us == pytest.approx(5000.0, rel=0.01)
    assert found.error < 0.01
    mean_us = exp(fmean(map(log, found.process_us)))
    assert mean_us == pytest.approx(found.time_us)


@pytest.mark.parametrize("probe_us", [35.0, 0.0])
def test_extra_processes_of_a_case_leave_it_as_many_values_as_others_have(probe_us: float) -> None:
    """A score pairs the values of all cases, process by process."""
    plan = plan_for("cpu")
    kernel, machine = FakeKernel(time_us=5000.0), replace(QUIET, probe_us=probe_us)
    slow = replace(machine, factor=1.5)
    processes = [one_pass(kernel, slow if seed < 2 else machine, plan, seed) for seed in range(5)]
    found = combine_processes(processes, plan)
    assert len(found.process_us) == plan.policy.processes
    assert found.time_us == pytest.approx(5000.0, rel=0.01)


def test_one_process_in_a_busy_time_changes_nothing() -> None:
    plan = plan_for("cpu")
    quiet, loud = replace(QUIET, probe_us=35.0), replace(QUIET, probe_us=35.0, factor=1.6)
    kernel = FakeKernel(time_us=5000.0)
    machines = (quiet, loud, quiet)
    processes = [one_pass(kernel, machine, plan, seed) for seed, machine in enumerate(machines)]
    found = combine_processes(processes, plan)
    assert found.time_us == pytest.approx(5000.0, rel=0.01)
    assert found.error < 0.01


@pytest.mark.parametrize("delay", [0.05, 0.5, 20.0])
def test_who_delays_the_probe_gains_next_to_nothing(delay: float) -> None:
    plan = plan_for("cpu")
    plan = replace(plan, history=replace(plan.history, probes=(35.0,) * 5))
    kernel = FakeKernel(time_us=5000.0, probe_delay=delay)
    found = one_case(kernel, replace(QUIET, probe_us=35.0), plan)
    assert found.time_us > 5000.0 * 0.975


def test_delayed_probes_gain_next_to_nothing_in_a_long_measurement() -> None:
    """Most probes run between calls then, so they alone must not say what a fast one takes."""
    plan = plan_for("cpu")
    plan = replace(plan, history=replace(plan.history, probes=(35.0,) * 5))
    machine = replace(QUIET, overhead_us=50.0, probe_us=35.0)
    honest = FakeKernel(time_us=300.0, drift=0.0005)
    fair = one_case(honest, machine, plan)
    delayed = one_case(replace(honest, probe_delay=0.08), machine, plan)
    assert delayed.statistics["blocks"] >= 3 * 25
    assert delayed.time_us > 0.975 * fair.time_us


@pytest.mark.parametrize("time_us", [1000.0, 40_000.0])
@pytest.mark.parametrize("delay", [0.0, 0.12, 0.5])
def test_slow_calls_are_not_hidden_by_slow_probes_after_them(time_us: float, delay: float) -> None:
    """Blocks of long calls are short: there a probe follows each call."""
    kernel = FakeKernel(time_us, slow_share=0.75, slow_by=1.0, slow_probe_delay=delay)
    found = one_case(kernel, replace(QUIET, probe_us=35.0), plan_for("cpu"))
    assert found.time_us > 1.5 * time_us


def test_who_is_slow_in_most_calls_is_not_ranked_by_the_others() -> None:
    kernel = FakeKernel(time_us=1000.0, slow_share=0.75, slow_by=10.0)
    assert one_case(kernel, plan=plan_for("cpu")).time_us > 8000.0
