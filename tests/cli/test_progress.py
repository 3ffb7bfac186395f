"""Where a submission is, in a sentence."""

from typing import Any

import pytest

from shared.api.submissions import FullSubmission, Progress
from shared.presentation.report_parts import ProgressText, run_progress, submission_progress
from tests.cli.answers import ANSWER, PASSED
from tests.support.api_examples import make_example

QUEUE = {"state": "queued", "position": 3, "agents_online": 1, "agents_busy": 1, "reason": None}
WAITING = "queued: place 3, 1 agent online, 1 busy"
SOON = QUEUE | {"eta_s": 41.7, "eta_p90_s": 400.0}
NEXT = QUEUE | {"position": 1, "eta_s": 0.0, "eta_p90_s": 0.0}
HELD = QUEUE | {"why": "the pool is paused: a new\ndriver"}
ALONE = {"state": "no_agent", "ahead": 0, "reason": "no agent with H100 is alive"}
STEP = {"stage": "check", "case": "size=64", "done": 2, "total": 5}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({}, "queued"),
        ({"state": "queued", "queue": QUEUE}, WAITING),
        (
            {"state": "queued", "queue": SOON},
            f"{WAITING}; begins in about 42 s (in 90 % of cases within 7 min)",
        ),
        (
            {"state": "queued", "queue": NEXT},
            "queued: place 1, 1 agent online, 1 busy; begins at once",
        ),
        ({"state": "queued", "queue": HELD}, "queued: place 3, the pool is paused: a new driver"),
        ({"state": "queued", "queue": ALONE}, "waiting: no agent with H100 is alive"),
        ({"state": "assigned", "agent": "a1"}, "given to agent a1"),
        ({"state": "running"}, "running"),
        ({"state": "running", "progress": STEP}, "check, case 3 of 5: size=64"),
        ({"state": "ranking"}, "has a verdict; ranking"),
    ],
)
def test_each_state_has_its_sentence(change: dict[str, Any], sentence: str) -> None:
    assert submission_progress(make_example(FullSubmission, **ANSWER | change)).whole == sentence


def test_the_end_is_told_by_its_verdict() -> None:
    assert submission_progress(make_example(FullSubmission, **PASSED)).sentence == "passed"
    lost = PASSED | {"verdict": None, "outcome": "infra_failed"}
    assert submission_progress(make_example(FullSubmission, **lost)).sentence == "infra_failed"


def test_a_step_tells_how_many_cases_are_over() -> None:
    text = run_progress(make_example(Progress, stage="time", case="size=8", done=5, total=5))
    assert text == ProgressText("time, case 5 of 5: size=8", 5, 5)


def test_a_stage_without_cases_is_told_by_its_name() -> None:
    assert (
        run_progress(make_example(Progress, stage="build", case="", done=0, total=0)).sentence
        == "build"
    )


def test_an_estimate_that_changes_is_no_news() -> None:
    texts = [
        submission_progress(
            make_example(
                FullSubmission,
                **ANSWER | {"state": "queued", "queue": QUEUE | {"eta_s": eta_s}},
            )
        )
        for eta_s in (60.0, 30.0)
    ]
    assert texts[0].sentence == texts[1].sentence
    assert texts[0].whole != texts[1].whole
