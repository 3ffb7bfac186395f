"""Tables of what the platform answered."""

import io
from datetime import UTC

import pytest
from msgspec import structs

from shared.api.agents import Agent
from shared.api.cases import Baseline, Case
from shared.api.fields import parse_response
from shared.api.leaderboards import Entry, Leaderboard
from shared.api.problems import FullProblem
from shared.api.queues import Depth
from shared.api.submissions import FullSubmission, SubmissionLine
from shared.presentation.outcome import Run
from tests.cli.answers import RECEIVED_AT, WRONG
from tests.support.api_examples import make_example
from warpboard.screen import Screen
from warpboard.terminal import leaderboards, problems, status, submissions

BOARD = {
    "problem": "matmul",
    "problem_version": 3,
    "gpu": "CPU",
    "items": [
        {
            "rank": 1,
            "tier": "C2",
            "level": "none",
            "participant": "ada",
            "number": 12,
            "score_us": 4560.0,
            "interval_us": [4500.0, 4620.0],
            "received_at": RECEIVED_AT,
            "grade": "ok",
        },
        {"rank": 2, "number": 14, "score_us": 9000.0, "is_tied": True, "is_provisional": True},
    ],
}


def test_a_leaderboard_has_a_row_an_entry_in_the_order_it_came() -> None:
    table = leaderboards.leaderboard_table(make_example(Leaderboard, **BOARD), UTC)
    assert table.title == "matmul on CPU, version 3"
    assert table.rows == [
        (
            *("1", "ada", "4.56 ms", "4.5 ms to 4.62 ms", "12", "2026-01-02 03:04:05 UTC"),
            *("C2", "none", "ok"),
        ),
        ("2=", "-", "9 ms", "-", "14", "2026-01-01 00:00:00 UTC", "-", "-", "-, provisional"),
    ]


def test_a_row_of_cases_tells_the_message_in_one_line_unless_the_card_does() -> None:
    failed = {"stage": "check", "verdict": "wrong_answer", "message": "3 differ"}
    crashed = {"stage": "check", "verdict": "crashed", "message": "KeyError: 1\nmore"}
    cases = [*WRONG["cases"], failed | {"name": "size=66"}, crashed | {"name": "size=67"}]
    submission = make_example(FullSubmission, **WRONG | {"cases": cases})
    rows = submissions.case_table(submission.cases).rows
    assert rows[1] == ("check", "size=65", "wrong_answer", "see above")
    assert rows[2] == ("check", "size=66", "wrong_answer", "see above")
    assert rows[3] == ("check", "size=67", "crashed", "KeyError: 1")


def test_a_row_of_cases_tells_the_null_call_and_the_grade() -> None:
    case = make_example(
        Case,
        name="size=1",
        stage="time",
        verdict="passed",
        null_us=[10.0, 12.0, 15.0],
        grade="noisy",
    )
    assert submissions.case_table([case]).rows[0][3:] == ("12 µs (10 µs to 15 µs)", "noisy")


def test_cases_in_80_columns_keep_their_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    case = make_example(
        Case,
        name="size=16777216 seed=4242 and more",
        stage="hidden_check",
        verdict="passed",
        time_us=12.34,
        interval_us=(12.0, 12.7),
        null_us=[10.0, 12.0, 15.0],
        grade="ok",
        speedup=1.23,
        speedup_interval=(1.2, 1.3),
        vs_baseline={"eager": 2.0},
    )
    out = io.StringIO()
    Screen(out, io.StringIO()).table(submissions.case_table([case]))
    heading = out.getvalue().splitlines()[1]
    assert "time" in heading.split()
    assert "message" not in heading


def test_a_column_tells_the_roofline_where_there_is_one() -> None:
    rates = {"bandwidth_gb_s": 12.3, "gflops": 1.0, "dtype": "fp32"}
    submission = parse_response(
        {
            "cases": [
                {
                    "name": "size=1",
                    "stage": "time",
                    "verdict": "passed",
                    "is_hidden": False,
                    "roofline": rates,
                }
            ]
        },
        Run,
    )
    table = submissions.case_table(submission.cases)
    assert dict(zip(table.columns, table.rows[0], strict=True))["roofline"] == (
        "12.3 GB/s, 1 GFLOP/s"
    )
    board = BOARD | {"items": [{"rank": 1, "number": 1, "score_us": 1, "roofline_fraction": 0.5}]}
    table = leaderboards.leaderboard_table(make_example(Leaderboard, **board), UTC)
    assert dict(zip(table.columns, table.rows[0], strict=True))["roofline"] == "50 %"


def test_a_timeline_keeps_the_order_of_the_log() -> None:
    submission = make_example(FullSubmission, **WRONG)
    assert submissions.timeline_table(submission.timeline, UTC).rows == [
        ("12", "2026-01-02 03:04:05 UTC", "SubmissionReceived", "ranked")
    ]


def test_a_list_of_submissions_tells_the_state_of_the_unfinished() -> None:
    summary = make_example(
        SubmissionLine, number=1, problem="p", gpu="CPU", mode="test", name="k.py", state="queued"
    )
    tagged = structs.replace(summary, tag="tiles")
    table = submissions.submission_table([summary, tagged])
    assert table.columns[8] == "tag"
    assert [(row[6], row[8]) for row in table.rows] == [("queued", "-"), ("queued", "tiles")]


def test_an_agent_is_free_busy_or_silent() -> None:
    agents = [
        make_example(Agent, id="a", is_alive=True, is_free=True, standing="enrolled"),
        make_example(Agent, id="b", is_alive=True, standing="enrolled"),
        make_example(Agent, id="c", is_free=True, standing="enrolled"),
    ]
    assert [row[5] for row in status.agent_table(agents).rows] == ["free", "busy", "silent"]
    held = make_example(Agent, is_alive=True, standing="cordoned", standing_reason="x")
    assert status.agent_table([held]).rows[0][5] == "cordoned: x"


def test_an_agent_shows_its_modes_and_its_quarantine() -> None:
    ill = make_example(
        Agent,
        id="a",
        level="strong",
        tier="C1",
        is_alive=True,
        quarantine="ill",
        standing="enrolled",
    )
    well = make_example(Agent, id="b", gpu="CPU", modes=["test", "ranked"], is_alive=True)
    rows = status.agent_table([ill, well]).rows
    assert rows[0][2:] == ("strong", "C1", "-", "in quarantine: ill")
    assert rows[1][4] == "test ranked"


def test_problems_and_the_queue_have_a_row_each() -> None:
    problem = make_example(
        FullProblem,
        slug="matmul",
        problem_version=3,
        title="Matrix product",
        gpus=["CPU", "H100"],
        state="active",
        visibility="public",
    )
    assert problems.problem_table([problem], UTC).rows == [
        ("matmul", "3", "Matrix product", "CPU H100", "2026-01-01 00:00:00 UTC", "active", "-")
    ]
    waiting = make_example(Depth, gpu="CPU", state="queued", submissions=4)
    assert status.queue_table([waiting], UTC).rows == [
        ("CPU", "queued", "4", "2026-01-01 00:00:00 UTC")
    ]


def test_every_row_is_as_wide_as_its_columns() -> None:
    board = leaderboards.leaderboard_table(make_example(Leaderboard, **BOARD))
    assert {len(row) for row in board.rows} == {len(board.columns)}


def test_a_baseline_stands_at_its_place_without_a_rank() -> None:
    board = make_example(
        Leaderboard,
        problem="m",
        problem_version=1,
        gpu="CPU",
        items=[
            make_example(
                Entry,
                rank=1,
                number=7,
                score_us=10.0,
                participant="ada",
                vs_baseline={"eager": 2.0},
            ),
            make_example(Entry, rank=2, number=8, score_us=30.0, participant="grace"),
        ],
        baselines=[
            make_example(Baseline, name="best", score_us=5.0, vs_leader=0.5),
            make_example(Baseline, name="eager", note="as it is", score_us=20.0, vs_leader=2.0),
            make_example(Baseline, name="last", score_us=40.0),
            make_example(Baseline, name="broken", state="failed"),
        ],
    )
    table = leaderboards.leaderboard_table(board, UTC)
    assert [row[:2] for row in table.rows] == [
        ("-", "[baseline best]"),
        ("1", "ada"),
        ("-", "[baseline eager]"),
        ("2", "grace"),
        ("-", "[baseline last]"),
    ]
    assert table.rows[1][table.columns.index("speed-up")] == "2x eager"
