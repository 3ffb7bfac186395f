"""Files that are named on the command line."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shared.errors import Refused
from shared.problem_folders import FILES_MAX
from shared.problem_versions import load_problem
from shared.problems.warpboard_yml import SOURCE_BYTES_MAX
from warpboard.files import (
    DOWNLOAD_BYTES_MAX,
    load_all_solutions,
    read_source,
    save_download,
)
from warpboard.terminal.local_runs import find_problem

TASK_YML = """\
files:
  - {name: "submission.py", source: "@SUBMISSION@"}
  - {name: "reference.py", source: "reference.py"}
lang: "py"
config: {main: "eval.py"}
description: "Nothing to do."
tests: []
benchmarks: [{size: 1, seed: 2}]
gpus: ["CPU"]
"""
REFERENCE = """\
def generate_input(size, seed): ...
def ref_kernel(data): ...
def check_implementation(data, output): ...
"""


@pytest.fixture
def problem(tmp_path: Path) -> Path:
    """The smallest problem that compiles, in a folder of its own."""
    folder = tmp_path / "Empty Loop"
    folder.mkdir()
    (folder / "task.yml").write_text(TASK_YML)
    (folder / "reference.py").write_text(REFERENCE)
    return folder


def test_solutions_dotfiles_and_caches_stay_at_home(problem: Path) -> None:
    for name in ("solutions/correct/a.py", "__pycache__/b.pyc", ".git/c", ".hidden"):
        (problem / name).parent.mkdir(parents=True, exist_ok=True)
        (problem / name).write_text("x = 1\n")
    files = load_problem(problem, None)
    assert sorted(files.files) == ["reference.py", "task.yml"]
    assert files.slug == "empty-loop"
    assert b"empty-loop" in files.manifest


def test_a_slug_may_be_chosen(problem: Path) -> None:
    assert load_problem(problem, "other").slug == "other"


def test_a_mistake_in_task_yml_shows_at_once(problem: Path) -> None:
    (problem / "task.yml").write_text(TASK_YML.replace("lang:", "language:"))
    with pytest.raises(Refused, match="language") as refused:
        load_problem(problem, None)
    assert refused.value.code == "bad_problem"


def test_a_folder_that_is_no_problem_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"task\.yml"):
        load_problem(tmp_path, "p")


def test_a_folder_of_a_thousand_files_is_not_read(problem: Path) -> None:
    for number in range(FILES_MAX):
        (problem / f"{number}.txt").touch()
    with pytest.raises(Refused, match="256 files"):
        load_problem(problem, None)


def test_a_file_without_end_is_not_read() -> None:
    with pytest.raises(Refused, match=f"{SOURCE_BYTES_MAX:,}"):
        read_source(Path("/dev/zero"))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="No such file"):
        read_source(tmp_path / "none.py")


def test_solutions_are_found_by_problem(problem: Path) -> None:
    (problem / "solutions/correct").mkdir(parents=True)
    (problem / "solutions/correct/good.py").write_text("x = 1\n")
    (solutions,) = load_all_solutions(problem.parent)
    assert [sample.name for sample in solutions.correct] == ["good.py"]
    assert solutions.wrong == ()


def test_a_folder_without_problems_has_no_solutions(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="no problem directory"):
        load_all_solutions(tmp_path)


def inside(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def pieces(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def test_a_download_is_saved_whole(tmp_path: Path) -> None:
    where = await save_download(tmp_path / "new", "log.txt", pieces(b"a", b"bc"))
    assert where.read_bytes() == b"abc"
    assert inside(tmp_path / "new") == ["log.txt"]


@pytest.mark.parametrize("name", ["../log.txt", "/etc/passwd", "", ".hidden", "a/b"])
async def test_a_name_that_leads_elsewhere_is_not_saved(tmp_path: Path, name: str) -> None:
    with pytest.raises(Refused, match="plain name"):
        await save_download(tmp_path, name, pieces(b"a"))
    assert inside(tmp_path) == []


async def test_a_download_without_end_is_not_kept(tmp_path: Path) -> None:
    many = [bytes(1 << 20)] * (DOWNLOAD_BYTES_MAX // (1 << 20) + 1)
    with pytest.raises(Refused, match="over"):
        await save_download(tmp_path, "log.txt", pieces(*many))
    assert inside(tmp_path) == []


def test_the_problem_of_a_file_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file, source = tmp_path / "work" / "kernel.py", b"#!POPCORN leaderboard copy\n"
    with pytest.raises(Refused, match=r"--problem PATH; there is no folder .*problem or problems"):
        find_problem(file, source)
    known = Path("problems", "copy")
    known.mkdir(parents=True)
    assert find_problem(file, source) == known
    beside = file.parent / "problem"
    beside.mkdir(parents=True)
    assert find_problem(file, b"") == beside
