"""What `problem eval-code` tells is what a run does."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.messages import STAGES
from tests.cli.asked import warpboard
from tests.problems.test_templates import MODEL, SINGLE
from warpboard.local_run import LocalHarness

PROBLEM = Path(__file__).parents[2] / "problems" / "vectoradd"


def told(path: Path) -> Mapping[str, str]:
    """What is told of a problem, for a program."""
    result = warpboard("problem", "eval-code", path, "--json")
    assert result.exit_code == 0, result.output
    found: Mapping[str, str] = json.loads(result.stdout)
    return found


def test_the_harness_that_runs_is_named_with_the_digest_of_its_code() -> None:
    code, found = LocalHarness().code(), told(PROBLEM)
    assert found["harness"] == f"version {code['version']}, SHA-256 {code['digest']}"
    assert (Path(found["its_code"]) / "supervisor" / "run.py").is_file()
    assert found["the_same_here"] == f"warpboard run FILE --problem {PROBLEM} --mode ranked"


def test_the_stages_of_each_mode_are_those_of_a_run() -> None:
    modes = ("test", "benchmark", "profile", "ranked")
    wanted = "; ".join(f"{mode}: {', '.join(STAGES[mode])}" for mode in modes)
    assert told(PROBLEM)["stages"] == wanted


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
    found = told(file)
    assert (found["defines"], found["checked"]) == (entry, checked)
