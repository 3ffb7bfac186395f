"""The contents of a version, and what its digest depends on."""

import hashlib
import json
from pathlib import Path

import pytest

from shared.errors import Refused
from shared.problems.compilation import compile_problem
from tests.shared.problems.examples import (
    FILES,
    REFERENCE,
    TASK,
    compile_example,
    files_with_task,
    replace_in_task,
)

SLUGS = ("identity", "vectoradd", "matmul", "softmax", "histogram", "grayscale")
PROBLEMS = Path(__file__).parents[3] / "problems"


def test_a_manifest_names_every_file_by_digest() -> None:
    version = compile_example(TASK + "templates: {Python: template.py}\n")
    manifest = json.loads(version.manifest)
    assert set(version.files) == {"task.py", "reference.py", "template.py", "statement.md"}
    assert manifest["files"] == {
        name: hashlib.sha256(data).hexdigest() for name, data in version.files.items()
    }
    assert manifest["submission"] == "submission.py"
    assert manifest["templates"] == {"Python": "template.py"}


def test_a_manifest_says_cases_budgets_and_ranking() -> None:
    version = compile_example(TASK + "ranking_by: geom\nbenchmark_timeout: 90\n")
    manifest = json.loads(version.manifest)
    assert manifest["tests"] == [{"name": "size=64 seed=7", "args": {"size": 64, "seed": 7}}]
    assert manifest["budgets_s"] == {"build": 60, "test": 180, "benchmark": 90, "ranked": 180}
    assert manifest["ranking_by"] == version.ranking_by == "geom"
    assert version.cases_count == {"tests": 1, "benchmarks": 1}
    assert version.gpus == ("CPU", "H100")


def test_the_digest_is_that_of_the_manifest() -> None:
    version = compile_example()
    assert version.digest == hashlib.sha256(version.manifest).hexdigest()


def test_equal_files_give_an_equal_digest() -> None:
    turned = dict(reversed(list(FILES.items())))
    spaced = files_with_task(
        "# a comment\n" + TASK.replace("{size: 64, seed: 7}", "{ size: 64, seed: 7 }")
    )
    assert compile_problem("doubling", turned).digest == compile_example().digest
    assert compile_problem("doubling", spaced).digest == compile_example().digest


@pytest.mark.parametrize(
    ("task", "others"),
    [
        (replace_in_task("size: 64", "size: 65"), {}),
        (replace_in_task("size: 1024", "size: 1024.0"), {}),
        (TASK + "test_timeout: 60\n", {}),
        (TASK, {"reference_py": REFERENCE + b"# changed\n"}),
        (TASK, {"statement_md": b"# Another\n"}),
        (TASK, {"warpboard_yml": b"title: Twice\n"}),
    ],
)
def test_a_change_of_substance_changes_the_digest(task: str, others: dict[str, bytes]) -> None:
    assert compile_example(task, **others).digest != compile_example().digest


def test_a_file_that_is_not_named_changes_nothing() -> None:
    assert compile_example(notes_txt=b"\xff anything").digest == compile_example().digest


def test_a_source_may_lie_in_a_folder() -> None:
    task = replace_in_task("source: task.py", "source: ./code/../code/types.py")
    version = compile_problem("doubling", {**files_with_task(task), "code/types.py": b"x = 1\n"})
    assert version.files["task.py"] == b"x = 1\n"


def test_a_title_comes_from_the_slug_or_warpboard_yml() -> None:
    assert compile_problem("matrix-vector_product", FILES).title == "matrix-vector_product"
    assert compile_example(warpboard_yml=b"title: 'Twice: doubled'\n").title == "Twice: doubled"


@pytest.mark.parametrize("slug", ["", "-a", "A", "a b", "a/b", "../a", "a\n", "é", "a" * 96])
def test_a_slug_is_short_lower_case_and_plain(slug: str) -> None:
    with pytest.raises(Refused, match="slug"):
        compile_problem(slug, FILES)


def test_no_task_file_or_two_are_refused() -> None:
    with pytest.raises(Refused, match=r"task\.yml or task\.yaml: neither exists"):
        compile_problem("doubling", {})
    with pytest.raises(Refused, match="both exist"):
        compile_problem("doubling", FILES | {"task.yaml": TASK.encode()})


def test_the_other_suffix_is_read_and_named() -> None:
    files = {name: data for name, data in FILES.items() if name != "task.yml"}
    assert compile_problem("doubling", files | {"task.yaml": TASK.encode()}).gpus == ("CPU", "H100")
    with pytest.raises(Refused, match=r"task\.yaml, line 5"):
        compile_problem(
            "doubling", files | {"task.yaml": replace_in_task("lang: py", "lang: c").encode()}
        )


@pytest.mark.parametrize("slug", SLUGS)
def test_a_shipped_problem_compiles_without_a_warning(slug: str) -> None:
    folder = PROBLEMS / slug
    paths = (path for path in folder.rglob("*") if path.is_file())
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
    version = compile_problem(slug, files)
    assert version.warnings == ()
    assert version.gpus[0] == "CPU"
    assert set(version.files) == {"task.py", "reference.py", "template.py", "statement.md"}


def test_more_cases_than_one_event_can_report_are_refused() -> None:
    def with_tests(count: int) -> str:
        many = "".join(f"  - {{size: 64, seed: {seed}}}\n" for seed in range(count))
        return replace_in_task("tests:\n  - {size: 64, seed: 7}\n", f"tests:\n{many}")

    assert compile_example(with_tests(99)).cases_count["tests"] == 99
    with pytest.raises(Refused, match="exceed 200 cases"):
        compile_example(with_tests(100))
