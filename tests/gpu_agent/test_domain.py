"""What an agent says of a run fits into an event, whatever the submission printed."""

from dataclasses import fields
from typing import Any

import msgspec
import pytest

from gpu_agent.domain import (
    FACT_BYTES_MAX,
    MESSAGE_LENGTH_MAX,
    Demand,
    Machine,
    build_registration,
    fit_event,
    parse_demand,
)
from harness.entry import CaseReport, RunRequest, StageFinished
from shared.errors import Refused
from shared.events import (
    CaseResult,
    Mismatch,
    Missing,
    RunCompleted,
    RunFailed,
    RunOptions,
    StageResult,
)
from shared.wire import EVENT_BYTES_MAX, encode


def completed(text: str, cases: int) -> RunCompleted:
    return RunCompleted(
        verdict="crashed",
        stage="check",
        reason=text,
        took_s=1.0,
        key="k" * 64,
        cases=[
            CaseResult(
                name=f"size={n}" * 30,
                stage="check",
                verdict="crashed",
                message=text,
                process_us=[1 / 3] * 5,
                null_us=[1 / 3] * 3,
                statistics={f"statistic_{n}_us": 1 / 3 for n in range(20)},
                mismatches=[Mismatch(index="[1, 2]", got="1" * 60, expected="2" * 60)] * 5,
            )
            for n in range(cases)
        ],
        log_head=text,
        log_tail=text,
        environment={"torch": "2"},
    )


@pytest.mark.parametrize("text", ["", "x" * 10_000, "\x01" * 10_000, "\U000e0001" * 10_000])
@pytest.mark.parametrize("cases", [0, 10, 200])
def test_a_verdict_fits_into_an_event_with_all_its_cases(text: str, cases: int) -> None:
    fact = fit_event(completed(text, cases))
    assert isinstance(fact, RunCompleted)
    assert len(encode(fact)) <= FACT_BYTES_MAX < EVENT_BYTES_MAX
    assert len(fact.cases) == cases


def test_short_texts_are_kept_whole() -> None:
    fact = fit_event(completed("it is 3, not 4", 5))
    assert isinstance(fact, RunCompleted)
    assert {case.message for case in fact.cases} == {"it is 3, not 4"}


def test_a_failure_keeps_its_code_and_a_bounded_reason() -> None:
    fact = fit_event(RunFailed(stage="check", code="problem_fault", reason="it raised " * 1000))
    assert isinstance(fact, RunFailed)
    assert (fact.code, len(fact.reason)) == ("problem_fault", MESSAGE_LENGTH_MAX)


def machine(level: str, tier: str) -> Machine:
    missing = [Missing(wall="freezer", reason="no cgroup", fix="mount one")]
    return Machine("2", level, tier, missing, {"g++": "13.2"}, {"torch": "2"})


STRICT = Demand("strong", ("G1", "G2", "C1"))


def test_a_strong_machine_offers_every_mode() -> None:
    registration = build_registration("CPU", machine("strong", "C1"), STRICT, {})
    assert registration.modes == ["test", "benchmark", "profile", "ranked", "check"]
    assert "ranked_not_offered" not in registration.details
    assert (registration.level, registration.tier, registration.toolchains) == (
        "strong",
        "C1",
        {"g++": "13.2"},
    )


@pytest.mark.parametrize(
    ("level", "tier", "why"),
    [
        ("medium", "C1", "isolation is medium, strong is demanded; missing: freezer"),
        ("strong", "C2", "the timing tier is C2, demanded is one of G1, G2, C1"),
    ],
)
def test_below_the_demand_ranked_is_not_offered_and_the_details_say_why(
    level: str, tier: str, why: str
) -> None:
    registration = build_registration("CPU", machine(level, tier), STRICT, {})
    assert registration.modes == ["test", "benchmark", "profile", "check"]
    assert registration.details["ranked_not_offered"] == why
    assert registration.missing[0].fix == "mount one"


def test_what_is_demanded_makes_no_other_machine() -> None:
    two = [
        build_registration("CPU", machine("weak", "C2"), demand, {})
        for demand in (STRICT, Demand("none", ("C2",)))
    ]
    assert two[0].fingerprint == two[1].fingerprint
    assert "ranked" in two[1].modes


@pytest.mark.parametrize(("level", "tiers"), [("safe", "C1"), ("strong", "C9")])
def test_a_demand_that_means_nothing_is_refused(level: str, tiers: str) -> None:
    with pytest.raises(Refused):
        parse_demand(level, tiers)


@pytest.mark.parametrize("device", ["tpu", "CUDA", ""])
def test_a_device_that_nothing_times_is_refused(device: str) -> None:
    with pytest.raises(Refused, match="DEVICE"):
        parse_demand("strong", "G1", device)


@pytest.mark.parametrize("device", ["cpu", "cuda", "hip"])
def test_every_device_of_the_harness_may_be_demanded(device: str) -> None:
    assert parse_demand("strong", "G1 G2", device).device == device


@pytest.mark.parametrize(
    ("reported", "stored"), [(CaseReport, CaseResult), (StageFinished, StageResult)]
)
def test_a_report_of_the_harness_has_the_fields_of_its_event(
    reported: type[Any], stored: type[msgspec.Struct]
) -> None:
    assert {field.name for field in fields(reported)} == set(stored.__struct_fields__)


def test_the_harness_knows_every_option_of_a_submission() -> None:
    names = {field.name for field in fields(RunRequest)}
    assert names >= set(RunOptions.__struct_fields__)
