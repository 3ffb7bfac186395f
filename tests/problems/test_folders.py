"""Problems are read from disk with what they share, and with nothing outside their set."""

import json
from pathlib import Path

import pytest

from shared.errors import Refused
from shared.folders import listed, problem_files, root_of, task_folders
from shared.problems import compile_problem
from shared.problems.contest import with_gpus
from tests.problems.sets import TASK, laid_out

PATH = "problems/first/add_py/task.yml"


def test_a_problem_of_a_set_loads_as_it_lies(tmp_path: Path) -> None:
    folder = laid_out(tmp_path)
    found = listed(folder)
    assert found is not None
    version = compile_problem(found.slug, with_gpus(problem_files(folder), found.gpus))
    assert version.gpus == ("H100", "B200_Nebius")
    assert set(version.files) == {"task.py", "utils.py", "reference.py", "eval.py", "template.py"}
    assert version.files["utils.py"] == b"def set_seed(seed): ...\n"
    manifest = json.loads(version.manifest)
    assert manifest["tests"][0]["args"] == {"size": 64, "flip": False, "seed": 7}
    assert root_of(folder) == tmp_path / "problems"
    assert task_folders(tmp_path) == [folder]


@pytest.mark.parametrize(
    "source", ["../../../private.py", "../../../../../../etc/passwd", "../link.py", "../no.py"]
)
def test_no_file_outside_the_set_is_read(tmp_path: Path, source: str) -> None:
    folder = laid_out(tmp_path, {PATH: TASK.replace("../utils.py", source)})
    (tmp_path / "problems" / "first" / "link.py").symlink_to(tmp_path / "private.py")
    files = problem_files(folder)
    assert b"SECRET = 1\n" not in files.values()
    with pytest.raises(Refused, match=r"task\.yml, line 4: .* leads out of the problem's root"):
        compile_problem("add", files)


def test_a_problem_outside_a_contest_is_its_own_root(tmp_path: Path) -> None:
    folder = laid_out(tmp_path)
    (tmp_path / "problems" / "first.yaml").unlink()
    assert root_of(folder) == folder
    assert listed(folder) is None
    assert "../utils.py" not in problem_files(folder)
    assert "../utils.py" in problem_files(folder, tmp_path)


def test_neither_links_nor_solutions_are_read(tmp_path: Path) -> None:
    folder = laid_out(tmp_path)
    (folder / "secret.py").symlink_to("/etc/passwd")
    names = set(problem_files(folder))
    assert {"task.yml", "task.py", "reference.py"} <= names
    assert not any("secret" in name or "solutions" in name for name in names)


def test_a_start_may_have_the_submissions_name(tmp_path: Path) -> None:
    task = TASK.replace("../template.py", "submission.py")
    start = "problems/first/add_py/submission.py"
    folder = laid_out(tmp_path, {PATH: task, start: "def custom_kernel(data): ...\n"})
    version = compile_problem("add", with_gpus(problem_files(folder), ("H100",)))
    assert json.loads(version.manifest)["templates"] == {"Python": "template_submission.py"}
    assert "submission.py" not in version.files
