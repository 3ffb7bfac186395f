"""Which problems judge answers by their own check alone, and their memory limits."""

import json
from pathlib import Path
from typing import Any

import pytest

from shared.errors import Refused
from shared.problem_folders import read_problem_files
from shared.problems.compilation import compile_problem

from .example_set import write_set

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
    """Compile the small public problem with lines of warpboard.yml, and return its manifest."""
    files = {**read_problem_files(folder), "warpboard.yml": f"gpus: [CPU]\n{extras}".encode()}
    content: dict[str, Any] = json.loads(compile_problem("add", files).manifest)
    return content


def test_a_problem_that_brings_the_public_program_is_judged_by_its_own_check(
    tmp_path: Path,
) -> None:
    folder = write_set(tmp_path)
    assert manifest(folder)["answers"] == "checked"
    assert "answers" not in manifest(folder, "answers: strict\n")


def test_any_other_problem_asks_for_that(tmp_path: Path) -> None:
    folder = write_set(tmp_path)
    task = folder / "task.yml"
    entry = '  - {"name": "eval.py", "source": "../../common/eval.py"}\n'
    task.write_text(task.read_text().replace(entry, ""))
    default_manifest = manifest(folder)
    assert not {"answers", "memory_mib"} & set(default_manifest)
    checked_manifest = manifest(folder, "answers: checked\nlimits: {memory_mib: 4096}\n")
    assert (checked_manifest["answers"], checked_manifest["memory_mib"]) == ("checked", 4096)


def test_a_single_file_is_strict_unless_it_asks_and_a_model_always_is() -> None:
    extras = {"warpboard.yml": b"answers: checked\n"}
    assert "answers" not in json.loads(compile_problem("one", {"one.py": SINGLE}).manifest)
    version = compile_problem("one", {"one.py": SINGLE, **extras})
    assert json.loads(version.manifest)["answers"] == "checked"
    with pytest.raises(Refused, match="no check of its own"):
        compile_problem("one", {"one.py": MODEL, **extras})


def test_arrays_are_a_matter_of_cpp(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="remove it"):
        manifest(write_set(tmp_path), "arrays: device\n")
