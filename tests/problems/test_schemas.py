"""The JSON Schemas of problem files accept what the models accept."""

from pathlib import Path
from string import Template
from typing import Any

import jsonschema_rs
import pytest

from shared.problems.document import read_document
from shared.problems.warpboard_yml import problem_schemas
from tests.problems.loaded_problem import PROBLEMS
from warpboard.files import read_template
from warpboard.terminal.authoring import DRAFT_FILES, DRAFT_SUFFIX, SCHEMAS, TEMPLATE_FOLDER

FILES = sorted(path for name in SCHEMAS for path in PROBLEMS.glob(f"*/{name}"))


def errors_of(name: str, value: Any) -> list[str]:
    """Return what the schema of a file finds wrong with its contents."""
    validator = jsonschema_rs.Draft7Validator(problem_schemas()[SCHEMAS[name]])
    return [error.message for error in validator.iter_errors(value)]


def test_every_problem_of_the_catalogue_has_its_schema_and_names_it() -> None:
    assert len(FILES) > 50
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        comment, _, schema = text.partition("\n")[0].partition("$schema=")
        assert comment == "# yaml-language-server: ", path
        assert (path.parent / schema).resolve().is_file(), path
        assert errors_of(path.name, read_document(path.name, text.encode()).value) == [], path


@pytest.mark.parametrize(
    ("form", "name"), [(form, name) for form in DRAFT_FILES for name in SCHEMAS]
)
def test_every_draft_has_its_schema(form: str, name: str) -> None:
    if name in DRAFT_FILES[form]:
        page = read_template(f"{TEMPLATE_FOLDER}/{form}/{name}{DRAFT_SUFFIX}")
        text = Template(page).substitute(title="Fast silu")
        assert errors_of(name, read_document(name, text.encode()).value) == []


@pytest.mark.parametrize("path", [PROBLEMS / "softmax" / name for name in SCHEMAS], ids=str)
def test_an_unknown_key_is_an_error(path: Path) -> None:
    value = read_document(path.name, path.read_bytes()).value
    (error,) = errors_of(path.name, value | {"gpu": ["H100"]})
    assert "gpu" in error


def test_a_wrong_value_is_an_error() -> None:
    assert errors_of("warpboard.yml", {"difficulty": "extreme"})
    assert errors_of("warpboard.yml", {"gpus": []})
    task = read_document("task.yml", (PROBLEMS / "softmax" / "task.yml").read_bytes()).value
    assert errors_of("task.yml", task | {"test_timeout": 0})
    # A problem in C++ says what is compiled, one in Python which program runs.
    assert errors_of("task.yml", task | {"lang": "cu"})
    assert not errors_of(
        "task.yml", task | {"lang": "cu", "config": {"sources": ["submission.cu"]}}
    )
    assert errors_of("task.yml", {key: task[key] for key in task if key != "lang"})
