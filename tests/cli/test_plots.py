"""Charts: as text, as PNG, as numbers for programs."""

import gzip
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.presentation.run_files import counts
from tests.cli.answers import RECEIVED_AT
from tests.cli.command_cases import PROBLEM
from tests.cli.command_runner import run_against
from tests.cli.stand_in import ReceivedRequest
from warpboard.terminal.plots import (
    BINS,
    HEIGHT,
    WIDTH,
    Point,
    Progress,
    Spread,
    draw_png,
    progress_lines,
    spread_lines,
)

BEGIN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
PNG = b"\x89PNG\r\n\x1a\n"
TIMES_US = st.floats(1e-3, 1e9, allow_nan=False)
RECORDS = [
    {"seq": 9, "number": 12, "score_us": 40.0, "at": RECEIVED_AT, "is_standing": True},
    {"seq": 19, "number": 14, "score_us": 4.0, "at": "2026-01-03T03:04:05Z", "is_standing": True},
]
PAST = {"number": 13, "score_us": 20.0, "counts": True, "received_at": "2026-01-02T09:00:00Z"}
BLOCK = {"time_us": [400.0, 4.0, 5.0], "flags": {"0": ["cold"]}, "lost_us": {}}
SAMPLES = {"cases": {"n=1": {"processes": [{"pairs": [{"A": BLOCK, "B": BLOCK}]}]}}}


def say(heard: ReceivedRequest) -> tuple[int, Any]:
    path = heard.path.partition("?")[0]
    if path.endswith("/samples.json.gz"):
        return 200, gzip.compress(json.dumps(SAMPLES).encode())
    if path.endswith("/history"):
        where = {"participant": "ada", "problem": "m", "gpu": "CPU", "problem_version": 3}
        return 200, where | {"items": [PAST]}
    return 200, PROBLEM if path == "/v1/problems/m" else {"items": RECORDS}


def points(times_us: list[float]) -> list[Point]:
    return [Point(BEGIN + timedelta(hours=i), time_us, i) for i, time_us in enumerate(times_us)]


@given(st.lists(TIMES_US, max_size=30), st.lists(TIMES_US, max_size=30))
def test_any_progress_can_be_drawn(records: list[float], own: list[float]) -> None:
    falling = sorted(records, reverse=True)
    lines = list(progress_lines(Progress("m", points(falling), points(own), "ada"), UTC))
    assert len(lines) in (2, HEIGHT + 4)
    assert max(map(len, lines)) <= WIDTH + 16


@given(st.lists(TIMES_US, min_size=1, max_size=300))
def test_any_samples_can_be_drawn(times_us: list[float]) -> None:
    _, line = spread_lines(Spread("s", [("n=1", times_us)]))
    assert f"{len(times_us):,} calls" in line
    assert sum(counts(times_us, min(times_us), max(times_us), BINS)) == len(times_us)
    assert len(line.partition("▕")[2].partition("▏")[0]) == BINS


def test_progress_is_drawn_with_ones_own_times_in_it() -> None:
    result, heard = run_against(say, "leaderboard", "show", "m", "CPU", "--plot", "--as", "ada")
    assert result.exit_code == 0, result.output
    for words in ("40 µs", "4 µs", "━", "o ada", "scale of ratios"):
        assert words in result.stdout
    assert heard[-1].path == "/v1/participants/ada/history?problem=m&gpu=CPU"


@pytest.mark.feature("P15")
def test_samples_are_drawn_without_what_was_not_counted() -> None:
    result, _ = run_against(say, "leaderboard", "show", "m", "CPU", "--samples", 12)
    assert "median 4.5 µs, 2 calls" in result.stdout
    result, _ = run_against(say, "leaderboard", "show", "m", "CPU", "--samples", 12, "--json")
    assert json.loads(result.stdout)["cases"] == [{"name": "n=1", "time_us": [4.0, 5.0]}]


@pytest.mark.parametrize("what", [("--plot",), ("--samples", 12)])
def test_a_chart_becomes_a_png_file(tmp_path: Path, what: tuple[object, ...]) -> None:
    file = tmp_path / "chart.png"
    result, _ = run_against(
        say, "leaderboard", "show", "m", "CPU", *what, "--png", file, "--as", "ada"
    )
    assert result.exit_code == 0, result.output
    assert file.read_bytes().startswith(PNG)
    assert str(file) in result.stdout


def test_an_empty_chart_is_no_failure() -> None:
    assert draw_png(Progress("m", [])).startswith(PNG)
    assert "nothing is ranked yet" in list(progress_lines(Progress("m", [])))


def test_a_png_of_nothing_is_wrong_usage(tmp_path: Path) -> None:
    result, heard = run_against(say, "leaderboard", "show", "m", "CPU", "--png", tmp_path / "x.png")
    assert (result.exit_code, heard) == (2, [])


def test_samples_that_are_none_are_a_failure() -> None:
    def broken(_: ReceivedRequest) -> tuple[int, Any]:
        return 200, b"no gzip"

    result, _ = run_against(broken, "leaderboard", "show", "m", "CPU", "--samples", 12)
    assert result.exit_code == 3
    assert "cannot be read" in result.stderr


def test_of_what_was_not_timed_there_is_no_chart() -> None:
    def gone(_: ReceivedRequest) -> tuple[int, Any]:
        return 404, {"detail": "no file", "code": "not_found"}

    result, _ = run_against(gone, "leaderboard", "show", "m", "CPU", "--samples", 12)
    assert result.exit_code == 2
    assert "was it timed?" in result.stderr
