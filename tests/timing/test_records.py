"""A result can be recomputed from its records."""

import gzip
import json
from dataclasses import replace
from statistics import fmean
from typing import Any

import pytest

from harness.time.combination import combine_processes, compress_records, make_record
from harness.time.estimators import interquartile_mean
from tests.timing.fake import FakeKernel, FakeMachine
from tests.timing.measuring import one_pass, plan_for

CROWDED = FakeMachine(cv=0.02, contaminated=0.15, null_us=5.0)


def recorded(machine: FakeMachine) -> dict[str, Any]:
    plan = replace(plan_for(), calibration={"quantum_us": 0.032})
    processes = [one_pass(FakeKernel(), machine, plan, seed) for seed in (1, 2, 3)]
    return make_record(processes, combine_processes(processes, plan))


def read(packed: bytes) -> Any:
    return json.loads(gzip.decompress(packed))


def test_the_time_follows_from_the_recorded_samples() -> None:
    case = read(compress_records({"a": recorded(CROWDED)}))["cases"]["a"]
    for process in case["processes"]:
        values = []
        for block in filter(lambda block: block["is_counted"], process["blocks"]):
            marked = {int(slot) for slot in block["flags"]}
            is_spoilt = len(marked) > 0.2 * len(block["time_us"])
            clean = [
                t for slot, t in enumerate(block["time_us"]) if is_spoilt or slot not in marked
            ]
            values.append(interquartile_mean(clean))
        assert fmean(values) == pytest.approx(process["value_us"], rel=1e-12)


def test_every_sample_is_recorded() -> None:
    case = recorded(CROWDED)
    taken = sum(len(block["time_us"]) for one in case["processes"] for block in one["blocks"])
    assert taken == case["time"]["samples"] + case["time"]["dropped"]
    assert case["time"]["dropped"] > 0
    assert len(case["processes"][0]["nulls"]["time_us"]) == 60
    assert case["processes"][0]["calibration"] == {"quantum_us": 0.032}


def test_the_same_records_are_the_same_bytes() -> None:
    packed = compress_records({"a": recorded(CROWDED)})
    assert packed == compress_records({"a": recorded(CROWDED)})
    # The time of day that the format has a place for.
    assert packed[4:8] == bytes(4)


def test_a_long_case_stays_a_small_file() -> None:
    machine = FakeMachine(cv=0.3, null_us=5.0, step_us=0.001)
    assert len(compress_records({"a": recorded(machine)})) < 60_000
