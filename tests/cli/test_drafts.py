"""A start for authors: each form compiles at once, passes its own check, and names its mistakes."""

import json
from pathlib import Path

import pytest

from shared.problems.directives import read_directives
from tests.cli.asked import warpboard
from warpboard.domain.drafts import END, FILES, PAGES
from warpboard.local_run import LocalDisk

TEMPLATES = Path(__file__).parent.parent.parent / "cli" / "src" / "warpboard" / "templates"


def test_every_page_of_a_form_becomes_a_file() -> None:
    for form, names in FILES.items():
        folder = TEMPLATES / PAGES / form
        found = [one.relative_to(folder).as_posix() for one in folder.rglob(f"*{END}")]
        assert sorted(found) == sorted(f"{name}{END}" for name in names)


@pytest.mark.parametrize("form", FILES)
def test_a_new_problem_compiles_as_it_is(form: str, tmp_path: Path) -> None:
    folder = tmp_path / "fast-silu"
    made = warpboard("problem", "new", folder, "--form", form, "--json")
    assert made.exit_code == 0, made.output
    assert json.loads(made.stdout)["slug"] == "fast-silu"
    problem = LocalDisk().problem(folder, None)
    manifest = json.loads(problem.manifest)
    assert (manifest["slug"], manifest["title"]) == ("fast-silu", "Fast silu")
    assert problem.warnings == ()
    assert (folder / "statement.md").read_text().startswith("# Fast silu\n")
    assert "$$y_i" in (folder / "statement.md").read_text()
    found = LocalDisk().samples(folder, "fast-silu")
    assert len(found.correct) == 2
    assert len(found.wrong) >= 2
    for one in (*found.correct, *found.wrong):
        assert read_directives(one.source.decode()).gpus == ()


@pytest.mark.box
@pytest.mark.long
@pytest.mark.parametrize("form", FILES)
def test_a_new_problem_passes_its_check_without_a_warning(form: str, tmp_path: Path) -> None:
    folder = tmp_path / "fast-silu"
    warpboard("problem", "new", folder, "--form", form)
    found = warpboard("problem", "check", folder, "--strict")
    assert found.exit_code == 0, found.output


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Fast Silu", "fast-silu would do"),
        ("_x", "x would do"),
        ("..", "names no problem"),
        ("s" * 65, "at most 64"),
    ],
)
def test_a_bad_name_is_refused_with_one_that_would_do(
    name: str, words: str, tmp_path: Path
) -> None:
    refused = warpboard("problem", "new", tmp_path / name)
    assert refused.exit_code == 2
    assert words in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_there_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "silu").mkdir()
    refused = warpboard("problem", "new", tmp_path / "silu")
    assert refused.exit_code == 2
    assert "is there already" in refused.stderr
    assert list((tmp_path / "silu").iterdir()) == []
