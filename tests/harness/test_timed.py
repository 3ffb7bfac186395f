"""A timed run, from its request to its times and samples."""

import gzip
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from harness.messages import CaseReport, RunReport
from shared.presentation import run_files
from tests.support.harness import REFERENCE, Host
from tests.support.processes import busy_process

# Each is timed for a second or more.
pytestmark = pytest.mark.long

# Its answer is right after so many milliseconds.
SLOW = """
import time
def custom_kernel(data):
    until = time.perf_counter() + {ms} / 1000
    while time.perf_counter() < until:
        pass
    return data[1].copy_(data[0])
"""


def timed(report: RunReport) -> list[CaseReport]:
    assert (report.verdict, report.failure_code) == ("passed", ""), (report.reason, report.log_tail)
    return [case for case in report.cases if case.stage == "time"]


def read_samples(host: Host) -> dict[str, Any]:
    body = json.loads(gzip.decompress((host.out / "samples.json.gz").read_bytes()))
    cases: dict[str, Any] = body["cases"]
    return cases


def make_reference(ms: float) -> str:
    """Return the reference of the small problem with this duration."""
    head, body = REFERENCE.split("    matrix, out = data\n")
    wait = f"    until = time.perf_counter() + {ms} / 1000\n"
    spin = "    while time.perf_counter() < until:\n        pass\n"
    docstring, head = head.split("\n", 1)
    return f"{docstring}\nimport time\n{head}    matrix, out = data\n{wait}{spin}{body}"


@pytest.fixture
def crowd() -> Iterator[None]:
    """Keep more threads runnable than there are cores."""
    cores = sorted(os.sched_getaffinity(0))
    with ExitStack() as stack:
        for core in 4 * cores:
            stack.enter_context(busy_process(core))
        yield


def test_a_time_is_the_ratio_to_the_yardstick_in_its_frozen_unit(host: Host) -> None:
    host.files["reference.py"] = make_reference(2.0)
    own = timed(host.run(SLOW.format(ms=1.0), "benchmark"))
    assert all(case.yardstick_us == pytest.approx(2000.0, rel=0.2) for case in own)
    frozen = {case.name: 500.0 for case in own}
    cases = timed(host.run(SLOW.format(ms=1.0), "benchmark", yardstick_us=frozen))
    for case in cases:
        assert case.yardstick_us == 500.0
        assert case.time_us == pytest.approx(250.0, rel=0.2)
        low, high = case.interval_us or (0.0, 0.0)
        assert low < (case.time_us or 0.0) < high


def test_the_samples_hold_both_sides_in_turn(host: Host) -> None:
    cases = timed(host.run(SLOW.format(ms=0.5), "benchmark"))
    samples = read_samples(host)
    assert samples.keys() == {case.name for case in cases}
    (process,) = samples[cases[0].name]["processes"]
    assert {pair["order"] for pair in process["pairs"]} == {"AB", "BA"}
    assert all(pair[side]["time_us"] for pair in process["pairs"] for side in "AB")
    # The pages draw what counts of them.
    drawn = run_files.read_samples((host.out / "samples.json.gz").read_bytes(), 1 << 22)
    assert {case.name for case in drawn} == samples.keys()
    submitted = sum(len(pair["A"]["time_us"]) for pair in process["pairs"])
    assert 0.5 * submitted < len(drawn[0].times_us) < submitted
    assert process["first"]["time_us"]
    assert process["last"]["time_us"]


def test_a_wide_precision_needs_fewer_calls(host: Host) -> None:
    host.files["reference.py"] = make_reference(0.5)
    wide = timed(host.run(SLOW.format(ms=0.5), "benchmark", precision=0.5))
    assert all(case.statistics["pairs"] == 5 for case in wide)


def test_a_ranked_run_that_cannot_beat_the_own_best_stops(host: Host) -> None:
    names = [case.name for case in timed(host.run(SLOW.format(ms=1.0), "benchmark"))]
    frozen = dict.fromkeys(names, 1000.0)
    report = host.run(SLOW.format(ms=1.0), "ranked", yardstick_us=frozen, best_us=1.0)
    assert "stopped after one of 3 processes" in report.stopped
    assert "your best is 1 us" in report.stopped
    assert [len(case.process_us) for case in timed(report)] == [1] * len(names)
    better = host.run(SLOW.format(ms=1.0), "ranked", yardstick_us=frozen, best_us=1e9)
    assert better.stopped == ""
    assert all(len(case.process_us) >= 3 for case in timed(better))


@pytest.mark.usefixtures("crowd")
def test_a_ranked_run_waits_for_a_quiet_machine_and_ends_as_noisy(host: Host) -> None:
    report = host.run(SLOW.format(ms=1.0), "ranked", quiet_wait_s=0.5)
    assert (report.verdict, report.failure_code) == ("", "noisy")
    assert "the machine is busy" in report.reason
    assert "the run was not timed" in report.reason


@pytest.mark.usefixtures("crowd")
def test_a_crowded_machine_is_timed_as_noisy_if_nobody_waits(host: Host) -> None:
    cases = timed(host.run(SLOW.format(ms=1.0), "benchmark"))
    assert {case.grade for case in cases} <= {"noisy", "bimodal"}
