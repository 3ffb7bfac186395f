"""Problems are read from disk with the files they share, and nothing outside their set."""

import json
import re
from pathlib import Path

import pytest

from shared.errors import Refused
from shared.presentation.units import one_line
from shared.problem_folders import (
    competition_root,
    find_competition_problem,
    find_task_folders,
    read_problem_files,
)
from shared.problems.competition import add_competition_gpus
from shared.problems.compilation import compile_problem
from tests.problems.example_set import TASK, write_set

PATH = "problems/first/add_py/task.yml"


def test_a_problem_of_a_set_loads_as_it_lies(tmp_path: Path) -> None:
    folder = write_set(tmp_path)
    problem = find_competition_problem(folder)
    assert problem is not None
    version = compile_problem(
        problem.slug, add_competition_gpus(read_problem_files(folder), problem.gpus)
    )
    assert version.gpus == ("H100", "B200_Nebius")
    assert set(version.files) == {"task.py", "utils.py", "reference.py", "eval.py", "template.py"}
    assert version.files["utils.py"] == b"def set_seed(seed): ...\n"
    manifest = json.loads(version.manifest)
    assert manifest["tests"][0]["args"] == {"size": 64, "flip": False, "seed": 7}
    assert competition_root(folder) == tmp_path / "problems"
    assert find_task_folders(tmp_path) == [folder]


@pytest.mark.parametrize(
    "source", ["../../../private.py", "../../../../../../etc/passwd", "../link.py", "../no.py"]
)
def test_no_file_outside_the_set_is_read(tmp_path: Path, source: str) -> None:
    folder = write_set(tmp_path, {PATH: TASK.replace("../utils.py", source)})
    (tmp_path / "problems" / "first" / "link.py").symlink_to(tmp_path / "private.py")
    files = read_problem_files(folder)
    assert b"SECRET = 1\n" not in files.values()
    with pytest.raises(Refused, match=r"task\.yml, line 4: .* is outside the problem's folder"):
        compile_problem("add", files)


def test_the_advice_for_files_above_a_problem_without_a_contest_can_be_followed(
    tmp_path: Path,
) -> None:
    folder = write_set(tmp_path)
    (tmp_path / "problems" / "first.yaml").unlink()
    with pytest.raises(Refused, match="list the problem in a competition file in") as caught:
        compile_problem("add", read_problem_files(folder))
    entry = re.search(r"\((name: SET), (problems: .*)\)", caught.value.reason)
    assert entry is not None
    root = tmp_path / "problems"
    directory = folder.relative_to(root).as_posix()
    text = "\n".join(entry.groups()).replace("DIR", directory).replace("SLUG", "add")
    (root / "contest.yaml").write_text(text)
    assert "utils.py" in compile_problem("add", read_problem_files(folder), ["CPU"]).files
    # The whole sentence fits into a line of `problem check`.
    assert one_line(caught.value.reason) == caught.value.reason


def test_a_problem_outside_a_contest_is_its_own_root(tmp_path: Path) -> None:
    folder = write_set(tmp_path)
    (tmp_path / "problems" / "first.yaml").unlink()
    assert competition_root(folder) == folder
    assert find_competition_problem(folder) is None
    assert "../utils.py" not in read_problem_files(folder)
    assert "../utils.py" in read_problem_files(folder, tmp_path)


def test_neither_links_nor_solutions_are_read(tmp_path: Path) -> None:
    folder = write_set(tmp_path)
    (folder / "secret.py").symlink_to("/etc/passwd")
    names = set(read_problem_files(folder))
    assert {"task.yml", "task.py", "reference.py"} <= names
    assert not any("secret" in name or "solutions" in name for name in names)


def test_a_start_may_have_the_submissions_name(tmp_path: Path) -> None:
    task = TASK.replace("../template.py", "submission.py")
    start = "problems/first/add_py/submission.py"
    folder = write_set(tmp_path, {PATH: task, start: "def custom_kernel(data): ...\n"})
    version = compile_problem("add", add_competition_gpus(read_problem_files(folder), ("H100",)))
    assert json.loads(version.manifest)["templates"] == {"Python": "template_submission.py"}
    assert "submission.py" not in version.files


def test_the_solution_that_is_the_yardstick_is_read(tmp_path: Path) -> None:
    folder, named = tmp_path / "problem", "solutions/correct/a.py"
    for name in (named, "solutions/correct/b.py", "solutions/wrong/a.py", "task.yml"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("pass\n")
    (tmp_path / "outside.py").write_text("pass\n")
    for written, read in ((named, named), ("../outside.py", None), ("solutions/lost.py", None)):
        (folder / "warpboard.yml").write_text(f"yardstick: {written}\n")
        expected = {"task.yml", "warpboard.yml"} | ({read} if read else set())
        assert set(read_problem_files(folder)) == expected
