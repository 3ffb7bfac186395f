"""Two files timed against each other, by the command and in its words."""

from pathlib import Path

import pytest
from msgspec import structs

from harness.time.policy import policy_for
from harness.vocabulary import DUEL, MODES
from shared.api.leaderboards import Entry, Leaderboard
from tests.cli.command_runner import run_warpboard
from tests.support.api_examples import make_example
from tests.support.harness import HONEST, REFERENCE
from warpboard.terminal.leaderboards import leaderboard_table
from warpboard.terminal.local_runs import Duel, DuelRun, duel_lines

pytestmark = pytest.mark.box

NAMES = ("old.py", "new.py")
TASK_YML = """\
files:
  - {name: "submission.py", source: "@SUBMISSION@"}
  - {name: "reference.py", source: "reference.py"}
lang: "py"
config: {main: "eval.py"}
description: "Copy it."
tests: [{size: 4, seed: 1}]
benchmarks: [{size: 16, seed: 2}]
ranked_timeout: 2
gpus: ["CPU"]
"""
SLOW = HONEST.replace(
    "    return",
    "    import time\n    until = time.perf_counter() + 0.001\n"
    "    while time.perf_counter() < until:\n        continue\n    return",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small problem, and files for it."""
    problem = tmp_path / "copy"
    problem.mkdir()
    (problem / "task.yml").write_text(TASK_YML)
    (problem / "reference.py").write_text(REFERENCE)
    (tmp_path / "fast.py").write_text(HONEST)
    (tmp_path / "slow.py").write_text(SLOW)
    return tmp_path


@pytest.mark.long
def test_the_command_says_which_file_is_faster_and_by_how_much(folder: Path) -> None:
    save = folder / "kept"
    words = ("duel", folder / "copy", folder / "slow.py", folder / "fast.py", "--save", save)
    result = run_warpboard(*words)
    assert result.exit_code == 0, result.output
    assert "fast.py is faster than slow.py: " in result.stdout
    pairs = MODES[DUEL].processes * policy_for("cpu", "duel").looks[-1]
    assert f"{pairs} pairs of blocks" in result.stdout
    assert (save / "samples.json.gz").exists()


def test_a_file_that_fails_ends_the_duel_with_its_verdict() -> None:
    reason = "submission B: check failed (wrong_answer)"
    duel = Duel(winner="", failed="B")
    run = DuelRun(verdict="wrong_answer", level="strong", tier="C1", reason=reason, duel=duel)
    head, *failure = duel_lines(NAMES, run)
    assert "wrong_answer" in head
    assert "submission B" in "\n".join(failure)


def test_what_cannot_be_told_apart_is_called_so() -> None:
    duel = Duel(winner="equal", ratio=1.0005, interval=(0.999, 1.002), pairs_us=[(1.0, 1.0)])
    lines = duel_lines(NAMES, DuelRun(verdict="passed", level="strong", tier="C1", duel=duel))
    assert lines == [
        "A old.py, B new.py: passed (duel, isolation strong, tier C1)",
        "no measurable difference between old.py and new.py",
        "time of A over time of B 1.0005 (0.9990 to 1.0020, 95 %), 1 pairs of blocks",
    ]


def test_the_faster_one_comes_first_with_the_interval() -> None:
    duel = Duel(winner="B", ratio=1.004, interval=(1.003, 1.005))
    lines = duel_lines(NAMES, DuelRun(verdict="passed", level="strong", duel=duel))
    assert lines[1] == "new.py is faster than old.py: 0.4 % ± 0.1 %"


def test_a_leaderboard_says_who_is_ahead_by_a_duel() -> None:
    because = "ahead of #47 by a duel: 0.4 % ± 0.1 %"
    rows = [
        make_example(Entry, rank=1, number=12, score_us=4.0, is_tied=True, duel=because),
        make_example(Entry, rank=1, number=47, score_us=4.0, is_tied=True),
    ]
    board = make_example(Leaderboard, problem="m", problem_version=1, gpu="CPU", items=rows)
    table = leaderboard_table(board)
    assert because in table.rows[0]
    assert "duel" in table.columns
    assert "duel" not in leaderboard_table(structs.replace(board, items=rows[1:])).columns
