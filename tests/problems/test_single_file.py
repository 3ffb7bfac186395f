"""A problem may be one Python file, in any of three forms, recognised by its source."""

import json
from pathlib import Path

import pytest

from shared.errors import Refused
from shared.problem_folders import read_problem_files
from shared.problems.compilation import ProblemVersion, compile_problem

REST = "def ref_kernel(data): ...\ndef check_implementation(a, b): ...\n"
OLDER = "#!POPCORN gpus CPU\ndef generate_input(): ...\n" + REST
NEWER = OLDER.replace("input()", "input(size=8, *, seed: int)")
EITHER = OLDER.replace("input()", "input(seed=3)")
KERNELBENCH = """\
import torch.nn as nn
class Model(nn.Module): ...
def get_inputs(): ...
def get_init_inputs(): ...
"""


def compiled(text: str, **others: bytes) -> ProblemVersion:
    files = {"reference_code.py": text.encode(), "notes.py": b"x = 1\n"}
    return compile_problem("one", files | {"warpboard.yml": others.get("extras", b"")})


def told(text: str) -> tuple[str, list[dict[str, object]]]:
    manifest = json.loads(compiled(text).manifest)
    assert manifest["calls"] == 5
    assert manifest["tests"] == manifest["benchmarks"]
    assert set(manifest["files"]) == {"reference.py"}
    return manifest.get("form", ""), manifest["tests"]


def test_the_parameters_of_its_generator_tell_a_files_form() -> None:
    assert told(OLDER) == ("outputs", [{"name": "case", "args": {}}])
    assert told(NEWER) == ("", [{"name": "seed=42", "args": {"seed": 42}}])


def test_what_fits_both_readings_must_say_which() -> None:
    with pytest.raises(Refused, match=r"write check_arguments = 'outputs' or 'input_output'"):
        compiled(EITHER)
    assert told(EITHER + "check_arguments = 'outputs'\n")[0] == "outputs"
    assert told(EITHER + "check_arguments = 'input_output'\n")[0] == ""
    with pytest.raises(Refused, match="check_arguments is 'both'"):
        compiled(EITHER + "check_arguments = 'both'\n")


def test_a_model_is_kernelbenchs_form() -> None:
    version = compiled(KERNELBENCH, extras=b"gpus: [H100]\nlanguages: [python, cpp]\n")
    manifest = json.loads(version.manifest)
    assert manifest["form"] == "kernelbench"
    assert version.languages == ("python",)
    assert "ModelNew" in manifest["description"]
    assert version.gpus == ("H100",)
    # All generators are seeded before each call.
    assert version.warnings == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (KERNELBENCH, "reference_code.py: no gpus"),
        (OLDER.replace("input()", "input(size)"), "needs size: list the cases in a task.yml"),
        (OLDER.replace("gpus CPU", "gpu"), "reference_code.py: line 1: leaderboard takes one"),
        (OLDER.replace("(): ...", "(:"), "reference_code.py, line 2: not Python"),
        (KERNELBENCH + "# A.from_pretrained\n", "it asks for weights by from_pretrained"),
        ("x = 1\n", "neither exists: a problem needs one of them"),
    ],
)
def test_what_a_file_lacks_is_said(text: str, words: str) -> None:
    with pytest.raises(Refused, match=words) as caught:
        compiled(text)
    assert caught.value.code == "bad_problem"


def test_two_problems_are_not_one() -> None:
    with pytest.raises(Refused, match=r"a\.py, b\.py: each is a problem by itself"):
        compile_problem("one", {"a.py": OLDER.encode(), "b.py": OLDER.encode()})


def test_a_file_is_read_by_its_own_name(tmp_path: Path) -> None:
    file = tmp_path / "9_Add.py"
    file.write_text(OLDER)
    assert read_problem_files(file) == {"9_Add.py": OLDER.encode()}
