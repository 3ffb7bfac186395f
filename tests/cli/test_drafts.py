"""A start for authors: each form compiles at once, passes its own check, and names its mistakes."""

import json
from pathlib import Path

import pytest

from shared.problem_versions import load_problem
from shared.problems.submission_file import read_directives
from tests.cli.command_runner import run_warpboard
from warpboard.files import load_solutions
from warpboard.terminal.authoring import DRAFT_FILES, DRAFT_SUFFIX, TEMPLATE_FOLDER

TEMPLATES = Path(__file__).parent.parent.parent / "cli" / "src" / "warpboard" / "templates"


def test_every_page_of_a_form_becomes_a_file() -> None:
    for form, names in DRAFT_FILES.items():
        folder = TEMPLATES / TEMPLATE_FOLDER / form
        templates = [
            path.relative_to(folder).as_posix() for path in folder.rglob(f"*{DRAFT_SUFFIX}")
        ]
        assert sorted(templates) == sorted(f"{name}{DRAFT_SUFFIX}" for name in names)


@pytest.mark.parametrize("form", DRAFT_FILES)
def test_a_new_problem_compiles_as_it_is(form: str, tmp_path: Path) -> None:
    folder = tmp_path / "fast-silu"
    result = run_warpboard("problem", "new", folder, "--form", form, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["slug"] == "fast-silu"
    problem = load_problem(folder, None)
    manifest = json.loads(problem.manifest)
    assert (manifest["slug"], manifest["title"]) == ("fast-silu", "Fast silu")
    assert problem.warnings == ()
    assert (folder / "statement.md").read_text().startswith("# Fast silu\n")
    assert "$$y_i" in (folder / "statement.md").read_text()
    solutions = load_solutions(folder, "fast-silu")
    assert len(solutions.correct) == 2
    assert len(solutions.wrong) >= 2
    for item in (*solutions.correct, *solutions.wrong):
        assert read_directives(item.source.decode()).gpus == ()


def test_a_new_problem_names_the_schemas_of_the_platform(tmp_path: Path) -> None:
    platform = {"WARPBOARD_URL": "https://warpboard.example"}
    assert run_warpboard("problem", "new", tmp_path / "silu", **platform).exit_code == 0
    for name in ("task", "warpboard"):
        first_line = (tmp_path / "silu" / f"{name}.yml").read_text().partition("\n")[0]
        url = f"https://warpboard.example/schemas/{name}.json"
        assert first_line == f"# yaml-language-server: $schema={url}"
    assert load_problem(tmp_path / "silu", None).warnings == ()


@pytest.mark.feature("C2")
@pytest.mark.box
@pytest.mark.long
@pytest.mark.parametrize("form", DRAFT_FILES)
def test_a_new_problem_of_each_form_passes_its_check_without_a_warning(
    form: str, tmp_path: Path
) -> None:
    """One form at a time: a check runs some ten files, each in a sandbox of its own."""
    folder = tmp_path / "fast-silu"
    run_warpboard("problem", "new", folder, "--form", form)
    result = run_warpboard("problem", "check", folder, "--strict")
    assert result.exit_code == 0, result.output


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
    refused = run_warpboard("problem", "new", tmp_path / name)
    assert refused.exit_code == 2
    assert words in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_there_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "silu").mkdir()
    refused = run_warpboard("problem", "new", tmp_path / "silu")
    assert refused.exit_code == 2
    assert "is there already" in refused.stderr
    assert list((tmp_path / "silu").iterdir()) == []
