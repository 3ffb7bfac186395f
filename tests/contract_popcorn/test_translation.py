"""A submission as the read side tells it, and as the public client is told."""

import base64
import io
import json
import zipfile
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.popcorn import results
from ingest.popcorn.conversions import job_response, job_status, runner_queue
from ingest.popcorn.dependencies import ProfileOptions
from shared.api.cases import Case
from shared.api.queues import Queue
from shared.api.submissions import (
    File,
    FullSubmission,
    ModerationState,
    Progress,
    Ranking,
    TimelineEntry,
)
from tests.support.api_examples import make_example

CHECKED = {"name": "size=1", "stage": "check", "verdict": "passed"}
HIDDEN = {"name": "size=9 seed=77", "stage": "hidden_check", "verdict": "passed", "is_hidden": True}
TIMED = {
    "name": "size=2",
    "stage": "time",
    "verdict": "passed",
    "time_us": 1500.0,
    "samples": 400,
    "statistics": {"mean_us": 1501.0, "sd_us": 3.0, "best_us": 1490.0},
}
WRONG = CHECKED | {"verdict": "wrong_answer", "message": "1 of 1 values differ"}


PARTS: dict[str, type[msgspec.Struct]] = {
    "cases": Case,
    "files": File,
    "moderation": ModerationState,
    "progress": Progress,
    "queue": Queue,
    "ranking": Ranking,
    "timeline": TimelineEntry,
}


def details(**more: Any) -> FullSubmission:
    """A ranked submission that passed and is ranked, but for what is said."""
    fields: dict[str, Any] = {
        "number": 12,
        "id": "s-12",
        "participant_id": "a-1",
        "problem": "identity",
        "problem_version": 1,
        "gpu": "H100",
        "mode": "ranked",
        "state": "finished",
        "received_at": "2026-01-01T00:00:00Z",
        "is_over": True,
        "outcome": "passed",
        "verdict": "passed",
        "is_eligible": True,
        "score_us": 1500.0,
        "stage": "time",
        "cases": [CHECKED, HIDDEN, TIMED],
        "ranking": {"status": "ranked", "code": "ranked"},
    }
    fields |= more
    for name, model in PARTS.items():
        part = fields.get(name)
        if isinstance(part, list):
            fields[name] = [make_example(model, **item) for item in part]
        elif part is not None:
            fields[name] = make_example(model, **part)
    return make_example(FullSubmission, **fields)


GOING_ON: dict[str, Any] = {"is_over": False, "outcome": None, "verdict": None, "ranking": None}


@pytest.mark.parametrize(
    ("told", "status", "words"),
    [
        ({}, "succeeded", ""),
        ({"mode": "test", "is_eligible": False}, "succeeded", ""),
        (
            {"outcome": "failed", "verdict": "wrong_answer", "reason": "check ended wrong"},
            "failed",
            "check ended wrong",
        ),
        (
            {
                "is_eligible": False,
                "code": "not_ranked_level",
                "ranking": {"status": "not_ranked", "code": "not_ranked_level", "reason": "weak"},
            },
            "failed",
            "not ranked (not_ranked_level): weak",
        ),
        (
            {"is_held": True, "ranking": {"status": "held", "code": "held", "reason": "too fast"}},
            "failed",
            "held for review: too fast",
        ),
        (
            {"outcome": "failed", "verdict": "timed_out", "reason": "60 s", "stage": "check"},
            "timed_out",
            "budget of test is used up: 60 s",
        ),
        ({"outcome": "cancelled", "verdict": None}, "failed", "cancelled by an operator"),
        (
            {"outcome": "infra_failed", "verdict": None, "code": "lost", "reason": "agent gone"},
            "failed",
            "quota was refunded, submit again (lost): agent gone",
        ),
        (
            {"outcome": "infra_failed", "verdict": None, "code": "agents_lost", "reason": "twice"},
            "failed",
            "your quota was refunded (agents_lost): twice",
        ),
        (
            {
                "ranking": {"status": "removed", "code": "disqualified"},
                "moderation": {"rule": "no cheats", "reason": "a copy"},
            },
            "hacked",
            "rule 'no cheats': a copy; appeal",
        ),
    ],
)
def test_an_ended_submission_has_the_status_of_the_contract(
    told: dict[str, Any], status: str, words: str
) -> None:
    status_ = job_status(details(**told))
    assert (status_.status, status_.is_done) == (status, True)
    assert words in (status_.error or "")
    assert (status_.error is None) == (status == "succeeded")


@pytest.mark.parametrize(
    ("state", "attempt", "status"),
    [
        ("queued", 0, "pending"),
        ("assigned", 1, "running"),
        ("running", 1, "running"),
        ("ranking", 1, "running"),
        # Its first agent was lost: the client has seen it running, and it never goes back.
        ("queued", 1, "running"),
    ],
)
def test_a_status_only_moves_forward_and_is_never_done_early(
    state: str, attempt: int, status: str
) -> None:
    status_ = job_status(details(state=state, attempt=attempt, **GOING_ON))
    assert (status_.status, status_.is_done, status_.error) == (status, False, None)


def test_a_poll_tells_the_stage_behind_a_colon() -> None:
    going = details(
        state="running",
        attempt=1,
        progress={"stage": "time", "case": "size=2", "done": 3, "total": 7},
        **GOING_ON,
    )
    assert job_response(going, is_long=True)["status"] == "running: benchmark 3/7"
    assert job_response(going)["status"] == "running"


def test_an_owner_reads_that_they_cancelled_it_themselves() -> None:
    cancel_event = {"type": "SubmissionCancelRequested", "actor": "account:a-1"}
    status = job_status(details(outcome="cancelled", verdict=None, timeline=[cancel_event]))
    assert status.error is not None
    assert status.error.startswith("cancelled by you")


def test_an_error_is_short_ascii_that_steers_no_terminal() -> None:
    status = job_status(details(outcome="failed", verdict="crashed", reason="\x1b[2Jé" * 2000))
    assert status.error is not None
    assert len(status.error) == 1500
    assert status.error.isascii()
    assert "\x1b" not in status.error


def test_hidden_runs_carry_no_result_spec_or_message() -> None:
    runs = results.stage_runs(details())
    assert [(run["mode"], run["secret"]) for run in runs] == [
        ("test", False),
        ("test", True),
        ("leaderboard", False),
    ]
    assert set(runs[1]) == {
        "start_time",
        "end_time",
        "mode",
        "secret",
        "runner",
        "score",
        "passed",
    }
    assert "77" not in json.dumps([runs, results.full_result(details())])


def test_the_score_is_seconds_and_only_of_the_leaderboard_run() -> None:
    runs = results.stage_runs(details())
    assert [run["score"] for run in runs] == [None, None, 0.0015]
    not_ranked = results.stage_runs(details(is_eligible=False))
    assert {run["score"] for run in not_ranked} == {None}


def test_counts_are_integers_and_times_nanoseconds() -> None:
    keys = results.stage_runs(details())[-1]["result"]
    assert type(keys["benchmark-count"]) is int
    assert keys["benchmark.0.mean"] == 1_501_000.0
    assert keys["benchmark.0.runs"] == 400
    assert keys["check"] == "pass"


def test_a_failing_case_says_why_and_ends_the_runs() -> None:
    runs = results.stage_runs(details(outcome="failed", verdict="wrong_answer", cases=[WRONG]))
    assert len(runs) == 1
    assert runs[0]["passed"] is False
    assert runs[0]["result"]["test.0.error"] == "1 of 1 values differ"


def test_a_build_that_failed_is_a_first_run_that_failed() -> None:
    log = {"log_head": "$ nvcc -O3 k.cu -o kernel\nk.cu(3): error\n", "log_tail": "exit code 2\n"}
    ended = details(outcome="failed", verdict="compile_error", stage="build", cases=[], **log)
    (run,) = results.stage_runs(ended)
    assert (run["mode"], run["passed"]) == ("test", False)
    full_run = results.full_result(ended)["runs"]["test"]
    expected = {"success": False, "command": "nvcc -O3 k.cu -o kernel", "exit_code": 2}
    assert expected.items() <= (full_run["compilation"] or {}).items()


def test_a_run_that_goes_on_has_no_runs_yet() -> None:
    assert results.stage_runs(details(state="ranking", **GOING_ON)) == []


PROFILED: dict[str, Any] = {
    "mode": "profile",
    "stage": "profile",
    "is_eligible": False,
    "score_us": None,
    "cases": [CHECKED, {"name": "size=2", "stage": "profile", "verdict": "passed"}],
    "files": [{"name": "profile-0-ncu.txt"}, {"name": "profile-0-ncu.ncu-rep"}],
}
CONTENTS = {"profile-0-ncu.txt": "Durée 3 µs".encode(), "profile-0-ncu.ncu-rep": b"\x00rep"}


def test_a_profile_has_a_report_and_one_zip_for_each_case() -> None:
    options = ProfileOptions(3, ncu_kernel_name="regex:copy", ncu_launch_count=2)
    result = results.profile_result(details(**PROFILED), CONTENTS, {}, options)
    metadata = result["profile_metadata"]
    assert metadata["benchmarks"] == ["size=2"]
    assert metadata["capture_options"] == {
        "benchmark_index": 3,
        "ncu_kernel_name": "regex:copy",
        "ncu_launch_count": 2,
    }
    profile_run = result["runs"]["profile.3"]
    keys = profile_run["run"]["result"]
    assert type(keys["benchmark-count"]) is int
    assert base64.b64decode(str(keys["benchmark.0.report"]), validate=True) == "Durée 3 µs".encode()
    assert profile_run["profile"] is not None
    assert profile_run["profile"]["profiler"] == "Nsight-Compute"
    trace = base64.b64decode(profile_run["profile"]["trace"], validate=True)
    with zipfile.ZipFile(io.BytesIO(trace)) as folder:
        assert sorted(folder.namelist()) == ["0-ncu-details.txt", "0-ncu.ncu-rep"]


def test_a_trace_that_is_too_large_goes_by_its_address() -> None:
    result = results.profile_result(
        details(**PROFILED), CONTENTS, {0: "http://here/it"}, ProfileOptions()
    )
    profile = result["runs"]["profile.0"]["profile"]
    assert profile is not None
    assert (profile["trace"], profile["download_url"]) == ("", "http://here/it")


def test_the_queue_tells_the_jobs_ahead_and_nothing_once_it_runs() -> None:
    queue = {"gpu": "H100", "state": "queued", "ahead": 2, "eta_s": 40.0, "agents_online": 1}
    queue_found = runner_queue(details(state="queued", queue=queue, **GOING_ON))
    assert queue_found is not None
    assert (queue_found["queued_jobs"], queue_found["runner"]) == (2, "pool (start in about 40 s)")
    assert runner_queue(details(state="running", **GOING_ON)) is None


VERDICTS = ["passed", "wrong_answer", "timed_out", "crashed", "compile_error", None]
STATES = ["queued", "assigned", "running", "ranking", "finished"]
CASES = st.fixed_dictionaries(
    {
        "name": st.text(max_size=20),
        "stage": st.sampled_from(["check", "hidden_check", "time", "profile", "odd"]),
        "verdict": st.sampled_from(VERDICTS[:-1]),
        "message": st.text(max_size=3000),
        "time_us": st.none() | st.floats(),
    }
)
ROWS = st.fixed_dictionaries(
    {
        "mode": st.sampled_from(["test", "benchmark", "profile", "ranked"]),
        "state": st.sampled_from(STATES),
        "attempt": st.integers(0, 3),
        "outcome": st.sampled_from(["passed", "failed", "cancelled", "infra_failed", None]),
        "verdict": st.sampled_from(VERDICTS),
        "reason": st.none() | st.text(max_size=3000),
        "is_eligible": st.booleans(),
        "score_us": st.none() | st.floats(),
        "stage": st.sampled_from(["build", "check", "hidden_check", "time", "profile", None]),
        "cases": st.lists(CASES, max_size=6),
        "ranking": st.none()
        | st.fixed_dictionaries(
            {
                "status": st.sampled_from(["ranked", "held", "not_ranked", "removed", "pending"]),
                "code": st.sampled_from(["ranked", "disqualified", "held", "withdrawn"]),
                "reason": st.none() | st.text(max_size=50),
            }
        ),
    }
)


@given(ROWS)
def test_whatever_a_row_says_the_client_can_read_it(row: dict[str, Any]) -> None:
    submission = details(**row, is_over=row["state"] == "finished")
    job_state = job_response(submission)
    is_terminal = job_state["status"] in ("succeeded", "failed", "timed_out", "hacked")
    assert job_status(submission).is_done is is_terminal is submission.is_over
    assert (job_state["error"] is None) == (
        job_state["status"] in ("pending", "running", "succeeded")
    )
    runs = results.stage_runs(submission)
    for run in runs:
        assert ("result" in run) is not run["secret"]
        assert run["score"] is None or run["score"] > 0
    # NaN and infinities are no JSON: none may come through.
    payloads = [job_state, runs, results.full_result(submission), results.render_report(submission)]
    assert json.dumps(payloads, allow_nan=False)
    assert job_state["error"] is None or 0 < len(job_state["error"]) <= 1500
