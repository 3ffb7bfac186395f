"""A problem's folder is read completely, verified, or refused with the reason."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.check.screen import SCREEN_S_MAX
from harness.problem import ProblemFault, load_problem
from harness.supervisor.server import run_budgets_s
from tests.support.harness import HONEST, Host


def _changed(host: Host, **changes: Any) -> Path:
    host.write()
    folder = host.folder / "problem"
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | changes))
    return folder


@pytest.mark.feature("N13")
def test_cases_keep_their_names_arguments_and_seeds(host: Host) -> None:
    problem = load_problem(_changed(host))
    assert [case.name for case in problem.tests] == ["size=4 seed=7", "size=8 seed=7"]
    assert problem.tests[0].args == {"size": 4, "seed": 7}
    assert problem.tests[0].seed == 7


def test_ranking_by_last_times_one_case(host: Host) -> None:
    assert len(load_problem(_changed(host)).cases("time", "ranked")) == 2
    last = load_problem(_changed(host, ranking_by="last")).cases("time", "ranked")
    assert [case.name for case in last] == ["size=32 seed=3"]


def test_a_benchmark_run_checks_what_it_times(host: Host) -> None:
    problem = load_problem(_changed(host))
    assert problem.cases("check", "benchmark") == problem.cases("time", "benchmark")
    assert problem.cases("check", "ranked") == problem.tests


def test_each_stage_has_the_budget_of_its_kind(host: Host) -> None:
    budgets = {"build": 1, "test": 2, "benchmark": 3, "ranked": 4}
    problem = load_problem(_changed(host, budgets_s=budgets))
    assert problem.budget_s("build", "ranked") == 1
    assert problem.budget_s("hidden_check", "ranked") == 2
    assert problem.budget_s("time", "benchmark") == 3
    assert problem.budget_s("time", "ranked") == 4


@pytest.mark.parametrize(
    "changes",
    [
        {"submission": "../submission.py"},
        {"submission": "submission.cu"},
        {"files": {"../reference.py": "00"}},
        {"files": {"absent.py": "00"}},
        {"files": 3},
        {"lang": "cu"},
        {"tests": [{"name": "no arguments"}]},
        {"benchmarks": None},
        {"budgets_s": {"test": "long"}},
        {"budgets_s": {"test": 0}},
        {"budgets_s": {"test": float("nan")}},
        {"budgets_s": {"test": float("inf")}},
        {"tests": [{"name": "nobody", "args": {"world_size": 0}}]},
        {"tests": [{"name": "a crowd", "args": {"world_size": 500}}]},
    ],
)
def test_a_manifest_that_cannot_be_used_is_refused(host: Host, changes: dict[str, Any]) -> None:
    with pytest.raises(ProblemFault):
        load_problem(_changed(host, **changes))


def test_a_manifest_nested_without_end_is_refused(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("[" * 100_000)
    with pytest.raises(ProblemFault, match=r"manifest\.json"):
        load_problem(tmp_path)


def test_a_folder_without_a_manifest_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProblemFault, match=r"manifest\.json"):
        load_problem(tmp_path)


@pytest.mark.parametrize("mode", ["test", "ranked"])
def test_teams_and_warm_ups_share_one_budget_however_many_cases_need_them(
    host: Host, mode: str
) -> None:
    def limit_s(ranks: list[int]) -> float:
        cases = [{"name": str(at), "args": {"world_size": n}} for at, n in enumerate(ranks)]
        host.told_besides = {"tests": cases, "benchmarks": cases}
        return _budgets_s(host, mode)

    host.budgets_s = {"build": 7}
    assert limit_s([1, 2, 2, 1]) == limit_s([1, 1, 1, 1]) == limit_s([1])


def test_a_policy_adds_the_time_of_the_screen(host: Host) -> None:
    free_s = _budgets_s(host, "test")
    host.told_besides = {"shortcuts": {"forbid": ["torch.matmul"]}}
    assert _budgets_s(host, "test") == pytest.approx(free_s + SCREEN_S_MAX)


def _budgets_s(host: Host, mode: str) -> float:
    return run_budgets_s(load_problem(Path(host.request(HONEST, mode).problem)), mode)
