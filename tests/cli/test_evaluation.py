"""What `problem eval-code` tells is what a run does."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.vocabulary import MODES
from shared.problem_versions import load_problem
from shared.problems.evaluation import render_evaluation
from tests.cli.command_runner import run_warpboard
from tests.problems.test_templates import MODEL, SINGLE
from warpboard.local_run import LocalHarness

PROBLEM = Path(__file__).parents[2] / "problems" / "vectoradd"


def describe(path: Path) -> Mapping[str, str]:
    """Return the description of a problem as a document."""
    result = run_warpboard("problem", "eval-code", path, "--json")
    assert result.exit_code == 0, result.output
    description: Mapping[str, str] = json.loads(result.stdout)
    return description


def test_the_harness_that_runs_is_named_with_the_digest_of_its_code() -> None:
    code, description = LocalHarness().code(), describe(PROBLEM)
    assert description["harness"] == f"version {code['version']}, SHA-256 {code['digest']}"
    assert (Path(description["its_code"]) / "supervisor" / "run.py").is_file()
    assert description["the_same_here"] == f"warpboard run FILE --problem {PROBLEM} --mode ranked"


def test_the_stages_of_each_mode_are_those_of_a_run() -> None:
    modes = ("test", "benchmark", "profile", "ranked")
    expected = "; ".join(f"{mode}: {', '.join(MODES[mode].stages)}" for mode in modes)
    assert describe(PROBLEM)["stages"] == expected


@pytest.mark.parametrize(
    ("source", "entry", "checked"),
    [
        (SINGLE, "custom_kernel(data)", "1 case, 5 calls each"),
        (MODEL, "class ModelNew", "1 case, 5 calls each"),
    ],
)
def test_a_problem_in_one_file_says_what_it_calls(
    source: bytes, entry: str, checked: str, tmp_path: Path
) -> None:
    file = tmp_path / "9_some.py"
    file.write_bytes(source)
    description = describe(file)
    assert (description["defines"], description["checked"]) == (entry, checked)


def test_the_program_that_states_the_procedure_is_written(tmp_path: Path) -> None:
    result = run_warpboard("problem", "eval-code", PROBLEM, "--output", tmp_path / "out")
    assert result.exit_code == 0, result.output
    manifest = json.loads(load_problem(PROBLEM, None).manifest)
    written = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert written == {name: render_evaluation(name, manifest) for name in ("eval.py", "utils.py")}


def test_the_program_has_the_weights_of_its_benchmarks() -> None:
    manifest = json.loads(load_problem(PROBLEM, None).manifest)
    manifest["ranking_by"] = "mean"
    manifest["benchmarks"] = [
        {"name": f"size={size}", "args": {"size": size}, "weight": weight}
        for size, weight in ((64, 1.0), (128, 2.5))
    ]
    assert b"\nWEIGHTS = [1.0, 2.5]\n" in render_evaluation("eval.py", manifest)


def test_what_the_author_did_not_write_comes_with_it(tmp_path: Path) -> None:
    file = tmp_path / "9_some.py"
    file.write_bytes(SINGLE)
    result = run_warpboard("problem", "eval-code", file, "--output", tmp_path)
    assert result.exit_code == 0, result.output
    names = {"9_some.py", "eval.py", "utils.py", "task.py", "reference.py"}
    assert {path.name for path in tmp_path.iterdir()} == names


def test_a_problem_that_only_the_harness_runs_has_no_program(tmp_path: Path) -> None:
    file = tmp_path / "9_some.py"
    file.write_bytes(MODEL)
    result = run_warpboard("problem", "eval-code", file, "--output", tmp_path / "out")
    assert result.exit_code != 0
    assert "use `warpboard run`" in result.output + result.stderr
