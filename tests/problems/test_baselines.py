"""The catalogue's baselines are solutions that are known to pass."""

from pathlib import Path

import pytest

from shared.problem_folders import read_problem_files
from shared.problems.compilation import compile_problem

PROBLEMS = sorted(path.parent for path in Path(__file__).parents[2].glob("problems/*/task.yml"))
# The warm-up's best answer is the library's own copy: a baseline would say nothing.
BARE = ("identity",)
HEAD = b"#!POPCORN leaderboard"


def code(text: bytes) -> bytes:
    """Return a solution without the line that names its leaderboard."""
    lines = text.splitlines(keepends=True)
    return b"".join(line for line in lines if not line.startswith(HEAD))


@pytest.mark.parametrize("folder", PROBLEMS, ids=lambda folder: str(folder.name))
def test_an_eager_baseline_is_one_of_the_correct_solutions(folder: Path) -> None:
    version = compile_problem(folder.name, read_problem_files(folder))
    eager = [baseline.data for baseline in version.baselines if baseline.name == "eager"]
    assert len(eager) == (folder.name not in BARE)
    correct = {code(path.read_bytes()) for path in folder.glob("solutions/correct/*.py")}
    assert {code(data) for data in eager} <= correct
