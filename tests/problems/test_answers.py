"""Which problems leave answers of another form to their own check, and what memory one asks for."""

import json
from pathlib import Path
from typing import Any

import pytest

from shared.errors import Refused
from shared.folders import problem_files
from shared.problems import compile_problem

from .sets import laid_out

SINGLE = b"""#!POPCORN gpus CPU
def generate_input(seed): ...
def ref_kernel(data): ...
def check_implementation(input, output): ...
"""
MODEL = b"""#!POPCORN gpus CPU
class Model: ...
def get_inputs(): ...
def get_init_inputs(): ...
"""


def manifest(folder: Path, extras: str = "") -> dict[str, Any]:
    """What the small public problem is compiled to, with lines of warpboard.yml."""
    files = {**problem_files(folder), "warpboard.yml": f"gpus: [CPU]\n{extras}".encode()}
    found: dict[str, Any] = json.loads(compile_problem("add", files).manifest)
    return found


def test_a_problem_that_brings_the_public_program_is_judged_by_its_own_check(
    tmp_path: Path,
) -> None:
    folder = laid_out(tmp_path)
    assert manifest(folder)["answers"] == "checked"
    assert "answers" not in manifest(folder, "answers: strict\n")


def test_any_other_problem_asks_for_that(tmp_path: Path) -> None:
    folder = laid_out(tmp_path)
    task = folder / "task.yml"
    entry = '  - {"name": "eval.py", "source": "../../common/eval.py"}\n'
    task.write_text(task.read_text().replace(entry, ""))
    found = manifest(folder)
    assert not {"answers", "memory_mib"} & set(found)
    asked = manifest(folder, "answers: checked\nlimits: {memory_mib: 4096}\n")
    assert (asked["answers"], asked["memory_mib"]) == ("checked", 4096)


def test_a_single_file_is_strict_unless_it_asks_and_a_model_always_is() -> None:
    extras = {"warpboard.yml": b"answers: checked\n"}
    assert "answers" not in json.loads(compile_problem("one", {"one.py": SINGLE}).manifest)
    found = compile_problem("one", {"one.py": SINGLE, **extras})
    assert json.loads(found.manifest)["answers"] == "checked"
    with pytest.raises(Refused, match="no check of its own"):
        compile_problem("one", {"one.py": MODEL, **extras})


def test_arrays_are_a_matter_of_cpp(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="leave it out"):
        manifest(laid_out(tmp_path), "arrays: device\n")
