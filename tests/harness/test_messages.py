"""Lines between the entry and its supervisor."""

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from harness.messages import (
    Accepted,
    CaseReport,
    Progress,
    RunReport,
    RunRequest,
    StageFinished,
    Started,
    failed_run,
    from_line,
    request_from_line,
    to_line,
)

CASE = CaseReport("n=1", "time", "passed", "", False, 2.5, (2.0, 3.0), 10)
REPORT = RunReport("passed", "time", "every case passed", 1.5, "00", [CASE], usage={"wall_s": 1.5})


@pytest.mark.parametrize(
    "message",
    [
        Accepted(480.0),
        Started("1", "none", "C2", "ab", {"cores": "2"}),
        Progress("check", "n=1", 0, 2),
        StageFinished("check", "passed", 0.5, 2),
        REPORT,
        failed_run("supervisor", "it died", 1.0),
    ],
)
def test_a_message_survives_its_line(message: Accepted | Started | Progress | RunReport) -> None:
    line = to_line(message)
    assert line.count("\n") == 1
    assert from_line(line) == message


def test_a_request_survives_its_line() -> None:
    request = RunRequest("problem", "source.py", "test", "out", key="00", gpus=[3, 1], case=2)
    assert request_from_line(to_line(request)) == request


def test_the_settings_of_the_timing_survive_their_line() -> None:
    frozen = {"n=1": 2.5, "n=2": 4.0}
    settings: dict[str, Any] = {"precision": 0.02, "best_us": 3.5, "quiet_wait_s": 60.0}
    request = RunRequest("problem", "source.py", "ranked", "out", yardstick_us=frozen, **settings)
    assert request_from_line(to_line(request)) == request


@pytest.mark.parametrize(
    "change",
    [
        {"precision": 1.0},
        {"precision": -0.01},
        {"precision": math.nan},
        {"best_us": -1.0},
        {"best_us": math.inf},
        {"quiet_wait_s": math.inf},
        {"quiet_wait_s": "long"},
        {"yardstick_us": {"n=1": 0.0}},
        {"yardstick_us": {"n=1": math.nan}},
        {"yardstick_us": {"n=1": None}},
        {"yardstick_us": [2.5]},
    ],
)
def test_a_request_with_impossible_settings_is_refused(change: dict[str, object]) -> None:
    request = RunRequest("problem", "source.py", "ranked", "out")
    body = json.loads(to_line(request))["RunRequest"] | change
    with pytest.raises(ValueError, match="not a request"):
        request_from_line(json.dumps({"RunRequest": body}))


def test_a_run_that_stopped_early_and_its_yardstick_survive_their_line() -> None:
    case = replace(CASE, yardstick_us=5.0)
    report = replace(REPORT, cases=[case], stopped="stopped after one of three processes")
    assert from_line(to_line(report)) == report


@pytest.mark.parametrize("yardstick_us", [0.0, -1.0, math.inf, math.nan, "slow"])
def test_a_case_with_an_impossible_yardstick_is_refused(yardstick_us: object) -> None:
    body = json.loads(to_line(REPORT))["RunReport"]
    body["cases"][0]["yardstick_us"] = yardstick_us
    with pytest.raises(ValueError, match="not a message of the supervisor"):
        from_line(json.dumps({"RunReport": body}))


@pytest.mark.parametrize(
    "line",
    [
        "",
        "[]",
        "{}",
        "nonsense",
        '{"Started": {}}',
        '{"Progress": {"stage": "check", "case": "n", "done": "0", "total": 2}}',
        '{"Progress": {"stage": "check", "case": "n", "done": true, "total": 2}}',
        '{"Stranger": {}}',
        to_line(RunRequest("problem", "source.py", "test", "out")),
        "[" * 100_000,
    ],
)
def test_anything_else_is_not_a_message(line: str) -> None:
    with pytest.raises(ValueError, match="not a message of the supervisor"):
        from_line(line)


@pytest.mark.parametrize(
    "change",
    [
        {"verdict": "excellent"},
        {"verdict": ""},
        {"failure_code": "supervisor"},
        {"verdict": "", "failure_code": "boredom"},
        {"took_s": "long"},
        {"usage": {"wall_s": "long"}},
        {"cases": [{"name": "n=1"}]},
        {"cases": 3},
        {"verdict": "wrong_answer", "stopped": "stopped after one of three processes"},
        {"verdict": "", "failure_code": "noisy", "stopped": "stopped early"},
    ],
)
def test_a_report_of_no_known_ending_is_refused(change: dict[str, object]) -> None:
    body = json.loads(to_line(REPORT))["RunReport"] | change
    with pytest.raises(ValueError, match="not a message of the supervisor"):
        from_line(json.dumps({"RunReport": body}))


def test_a_request_of_another_form_is_refused() -> None:
    with pytest.raises(ValueError, match="not a request"):
        request_from_line('{"RunRequest": {"problem": 3}}')
