"""Tables of what the platform answered."""

from datetime import UTC

from msgspec import structs

from tests.cli.answers import RECEIVED_AT, WRONG
from warpboard.domain import tables
from warpboard.domain.answers import (
    Agent,
    Case,
    Entry,
    Leaderboard,
    Run,
    Submission,
    Summary,
    read,
)
from warpboard.domain.goals import Baseline
from warpboard.domain.oversight import Waiting
from warpboard.domain.problems import Problem

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
            "low_us": 4500.0,
            "high_us": 4620.0,
            "received_at": RECEIVED_AT,
            "grade": "ok",
        },
        {"rank": 2, "number": 14, "score_us": 9000.0, "is_tied": True, "is_provisional": True},
    ],
}


def test_a_leaderboard_has_a_row_an_entry_in_the_order_it_came() -> None:
    table = tables.leaderboard(read(BOARD, Leaderboard), UTC)
    assert table.title == "matmul on CPU, version 3"
    assert table.rows == [
        (
            *("1", "ada", "4.56 ms", "4.5 ms to 4.62 ms", "12", "2026-01-02 03:04:05"),
            *("C2", "none", "ok"),
        ),
        ("2=", "-", "9 ms", "-", "14", "-", "-", "-", "-, provisional"),
    ]


def test_a_row_of_cases_tells_the_message_in_one_line() -> None:
    found = read(WRONG, Submission)
    rows = tables.cases(found.cases).rows
    assert rows[1] == ("check", "size=65", "wrong_answer", "-", "-", "-", "-", "3 differ")


def test_a_row_of_cases_tells_the_null_call_and_the_grade() -> None:
    case = Case(
        name="size=1", stage="time", verdict="passed", null_us=[10.0, 12.0, 15.0], grade="noisy"
    )
    assert tables.cases([case]).rows[0][5:7] == ("12 µs (10 µs to 15 µs)", "noisy")


def test_a_column_tells_the_roofline_where_there_is_one() -> None:
    rates = {"bandwidth_gb_s": 12.3, "gflops": 1.0, "dtype": "fp32"}
    found = read(
        {"cases": [{"name": "size=1", "stage": "time", "verdict": "passed", "roofline": rates}]},
        Run,
    )
    table = tables.cases(found.cases)
    assert dict(zip(table.columns, table.rows[0], strict=True))["roofline"] == (
        "12.3 GB/s, 1 GFLOP/s"
    )
    board = BOARD | {"items": [{"rank": 1, "number": 1, "score_us": 1, "roofline_fraction": 0.5}]}
    table = tables.leaderboard(read(board, Leaderboard), UTC)
    assert dict(zip(table.columns, table.rows[0], strict=True))["roofline"] == "50 %"


def test_a_timeline_keeps_the_order_of_the_log() -> None:
    found = read(WRONG, Submission)
    assert tables.timeline(found.timeline, UTC).rows == [
        ("12", "2026-01-02 03:04:05", "SubmissionReceived", "ranked")
    ]


def test_a_list_of_submissions_tells_the_state_of_the_unfinished() -> None:
    found = Summary(number=1, problem="p", gpu="CPU", mode="test", name="k.py", state="queued")
    tagged = structs.replace(found, tag="tiles")
    table = tables.submissions([found, tagged])
    assert table.columns[8] == "tag"
    assert [(row[6], row[8]) for row in table.rows] == [("queued", "-"), ("queued", "tiles")]


def test_an_agent_is_free_busy_or_silent() -> None:
    found = [
        Agent(id="a", gpu="CPU", is_alive=True, is_free=True),
        Agent(id="b", gpu="CPU", is_alive=True),
        Agent(id="c", gpu="CPU", is_free=True),
    ]
    assert [row[5] for row in tables.agents(found).rows] == ["free", "busy", "silent"]


def test_an_agent_shows_its_modes_and_its_quarantine() -> None:
    ill = Agent(id="a", gpu="CPU", level="strong", tier="C1", is_alive=True, quarantine="ill")
    well = Agent(id="b", gpu="CPU", modes=["test", "ranked"], is_alive=True)
    rows = tables.agents([ill, well]).rows
    assert rows[0][2:] == ("strong", "C1", "-", "in quarantine: ill")
    assert rows[1][4] == "test ranked"


def test_problems_and_the_queue_have_a_row_each() -> None:
    problem = Problem(slug="matmul", number=3, title="Matrix product", gpus=["CPU", "H100"])
    assert tables.problems([problem]).rows == [
        ("matmul", "3", "Matrix product", "CPU H100", "-", "-", "-")
    ]
    waiting = Waiting(gpu="CPU", state="queued", submissions=4)
    assert tables.queue([waiting]).rows == [("CPU", "queued", "4", "-")]


def test_every_row_is_as_wide_as_its_columns() -> None:
    board = tables.leaderboard(read(BOARD, Leaderboard))
    assert {len(row) for row in board.rows} == {len(board.columns)}


def test_a_baseline_stands_at_its_place_without_a_rank() -> None:
    board = Leaderboard(
        problem="m",
        problem_version=1,
        gpu="CPU",
        items=[
            Entry(rank=1, number=7, score_us=10.0, participant="ada", vs_baseline={"eager": 2.0}),
            Entry(rank=2, number=8, score_us=30.0, participant="grace"),
        ],
        baselines=[
            Baseline(name="best", score_us=5.0, vs_leader=0.5),
            Baseline(name="eager", note="as it is", score_us=20.0, vs_leader=2.0),
            Baseline(name="last", score_us=40.0),
            Baseline(name="broken", state="failed"),
        ],
    )
    table = tables.leaderboard(board, UTC)
    assert [row[:2] for row in table.rows] == [
        ("-", "[baseline best]"),
        ("1", "ada"),
        ("-", "[baseline eager]"),
        ("2", "grace"),
        ("-", "[baseline last]"),
    ]
    assert table.rows[1][table.columns.index("speed-up")] == "2x eager"
