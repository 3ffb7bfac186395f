"""The public sets load and give the expected verdicts; they are outside this repository.

Each test names the variable with the path of a checkout, and is skipped without it.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from docs import set_runs, sets
from docs.set_runs import Outcome

from shared.errors import Refused
from shared.problem_folders import competition_files, find_task_folders
from shared.problem_versions import load_problem
from tests.support.harness import Warm
from tests.support.rounds import holds_in_a_round
from warpboard.files import find_level, load_competition
from warpboard.local_run import LocalHarness

KERNELS, BENCH = "WARPBOARD_REFERENCE_KERNELS", "WARPBOARD_KERNELBENCH"
EXPLOITS = "WARPBOARD_PYGPUBENCH"
LIMIT_S = 120.0
# These need what a machine without a GPU has not, and say so.
ELSEWHERE = ("CUDA_HOME", "No module named 'triton'")


def checkout(variable: str) -> Path:
    """Return the checkout that a variable names; skip the test if it names none."""
    folder = os.environ.get(variable)
    if not folder:
        pytest.skip(f"{variable} names no checkout of its public set")
    return Path(folder)


def levels(root: Path) -> list[Path]:
    return [path for level in range(1, 5) for path in find_level(root, level).glob("*.py")]


def looked(root: Path, paths: list[Path]) -> dict[str, str]:
    """Return why each problem does not load, "" if it does."""
    problems = {}
    for path in paths:
        try:
            load_problem(path, None, ("CPU",))
            reason = ""
        except Refused as refused:
            reason = refused.reason
        problems[path.relative_to(root).as_posix()] = reason
    return problems


@pytest.mark.parametrize(
    ("variable", "title", "paths"),
    [(KERNELS, "Reference kernels", find_task_folders), (BENCH, "KernelBench", levels)],
)
def test_a_public_set_is_on_the_page_as_it_loads(
    variable: str, title: str, paths: Callable[[Path], list[Path]]
) -> None:
    root = checkout(variable)
    loaded = looked(root, paths(root))
    assert not any("\n" in reason for reason in loaded.values())
    published = sets.read(sets.HERE / sets.DATA).sets[title]
    if published.commit != sets.commit_of(root):
        pytest.skip(f"the published run is of commit {published.commit} of {variable}")
    on_page = {name: problem.loads for name, problem in published.problems.items()}
    assert on_page == loaded, "python -m docs.sets --run publishes another run"


def test_every_contest_of_the_set_names_problems_that_load() -> None:
    root = checkout(KERNELS)
    files = competition_files(root / "problems")
    assert files
    for file in files:
        for one in load_competition(file):
            assert load_problem(Path(one.directory), None).slug


@pytest.mark.box
@pytest.mark.long
@pytest.mark.timeout(1200)
def test_the_own_solutions_of_a_set_end_as_they_must(warm: Warm) -> None:
    root = checkout(KERNELS)
    harness = LocalHarness(warm.harness)

    async def run(path: Path) -> list[Outcome]:
        problem = set_runs.load(path)
        assert not isinstance(problem, str)
        own = set_runs.own_solutions(path, problem)
        return [await set_runs.run_sample(harness, problem, sample, LIMIT_S) for sample in own]

    ended = {path: warm.runner.run(run(path)) for path in find_task_folders(root)}
    wrong = [
        f"{path.name}: {one.kind} {one.name}: {one.said}"
        for path, outcomes in ended.items()
        for one in outcomes
        if one.said and not any(word in one.said for word in ELSEWHERE)
    ]
    assert sum(map(len, ended.values())) > 0
    assert not wrong


@pytest.mark.box
@pytest.mark.alone
@pytest.mark.timeout(600)
def test_the_known_exploits_gain_nothing(warm: Warm) -> None:
    """An exploit gains if it takes less than half as long as the control in every round.

    Error rate: that of `holds_in_a_round`.
    """
    root = checkout(EXPLOITS)
    rounds: list[dict[str, str]] = []

    def none_gains_in_every_round() -> bool:
        runs = set_runs.run_exploits(LocalHarness(warm.harness), root, LIMIT_S)
        outcomes = warm.runner.run(runs)
        assert len(outcomes) > set_runs.CONTROL_RUNS
        rounds.append({one.name: f"{one.verdict}: {one.said}" for one in outcomes if one.said})
        return not set.intersection(*map(set, rounds))

    assert holds_in_a_round(none_gains_in_every_round), rounds[-1]
