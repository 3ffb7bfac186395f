"""Every mistake in a task.yml gets one error message with file, line, field and the fix."""

import pytest

from shared.errors import Refused
from tests.shared.problems.examples import TASK, compile_example, replace_in_task

# What is replace_in_task, by what, the field, and how the sentence goes on after "task.yml".
MISTAKES = [
    ("tests:", "test:", "test", ", line 9: unknown key 'test': did you mean 'tests'?"),
    ("files:", "filse:", "filse", ", line 1: unknown key 'filse': did you mean 'files'?"),
    ("{main: eval.py}", "{mian: x}", "config.mian", "in 'config': did you mean 'main'?"),
    ("lang: py\n", "", "lang", ": the key 'lang' is missing: add it"),
    ("name: task.py, ", "", "files.1.name", ", line 3: the key 'name' is missing in 'files.1'"),
    ("gpus:", "lang:", "lang", ", line 13: a second key 'lang': write it once"),
    ("lang: py", "lang: cu", "config.main", ", line 6: unknown key 'main' in 'config': there are"),
    ("lang: py", "lang: rust", "lang", ", line 5: 'lang' must be 'py', not 'rust'"),
    (
        "lang: py",
        "lang: py\nmulti_gpu: true",
        "tests.0.world_size",
        ", line 11: multi_gpu is true, but this case has no world_size: write 1 to 16",
    ),
    ("lang: py", "lang: py\nmulti_gpu: 1", "multi_gpu", "must be a valid boolean, not '1'"),
    ("lang: py", "lang: py\nranking_by: median", "ranking_by", "must be 'last', 'mean' or 'geom'"),
    ("lang: py", "lang: py\ntest_timeout: 60.5", "test_timeout", "valid integer, not '60.5'"),
    (
        "lang: py",
        "lang: py\ntest_timeout: 0",
        "test_timeout",
        "greater than or equal to 1, not '0'",
    ),
    ("lang: py", "lang: py\ntemplates:", "templates", "'templates' must be a map, not 'None'"),
    ("{main: eval.py}", "eval.py", "config", "must be a map, such as main: ..., not 'eval.py'"),
    ("[CPU, H100]", "[]", "gpus", ", line 13: 'gpus' has a length of 0: write at least 1"),
    ("[CPU, H100]", "[CPU, CPU]", "gpus", ": gpus CPU, CPU: name each once"),
    ("[CPU, H100]", "[H 100]", "gpus.0", "should match pattern"),
    ("gpus: [CPU, H100]\n", "", "gpus", "list the GPU types, such as [CPU]"),
    ('"@SUBMISSION@"', "task.py", "files", "0 entries have source '@SUBMISSION@'"),
    ("source: task.py", 'source: "@SUBMISSION@"', "files.1", ", line 3: 2 entries have source"),
    ("name: submission.py", "name: kernel.cu", "files.0.name", "must end in .py"),
    ("name: task.py", "name: a/task.py", "files.1.name", "is not a valid file name"),
    ("name: task.py", "name: ..", "files.1.name", "is not a valid file name"),
    ("name: task.py", "name: manifest.json", "files.1.name", "is not a valid file name"),
    ("name: task.py", "name: submission.py", "files.1.name", "'submission.py' is listed twice"),
    (
        "name: task.py",
        "name: reference.py",
        "files.2.name",
        ", line 4: 'reference.py' is listed twice",
    ),
    ("name: reference.py", "name: other.py", "files", "file 'reference.py' is missing: add it"),
    ("source: task.py", "source: ../task.py", "files.1.source", "is outside the problem's"),
    ("source: task.py", "source: a/../../task.py", "files.1.source", "is outside the problem's"),
    ("source: task.py", "source: /etc/passwd", "files.1.source", "is outside the problem's"),
    ("source: task.py", r"source: '..\task.py'", "files.1.source", "is outside the problem's"),
    ("source: task.py", "source: 'C:task.py'", "files.1.source", "is outside the problem's"),
    (
        "source: task.py",
        "source: tusk.py",
        "files.1.source",
        "'tusk.py' is no file of the problem",
    ),
    ("lang: py", "lang: py\ntemplates: {Python: x.py}", "templates.Python", "is no file"),
    ("benchmarks:\n  - {size: 1024, seed: 3}\n", "", "benchmarks", "needs at least one timed case"),
]


@pytest.mark.parametrize(("old", "new", "field", "sentence"), MISTAKES)
def test_a_mistake_is_named_with_its_place(old: str, new: str, field: str, sentence: str) -> None:
    with pytest.raises(Refused) as caught:
        compile_example(replace_in_task(old, new))
    assert caught.value.code == "bad_problem"
    assert caught.value.field == field
    assert caught.value.reason.startswith("task.yml")
    assert sentence in caught.value.reason
    assert "\n" not in caught.value.reason


@pytest.mark.parametrize("task", ["", "- a\n", "word\n", "[1, 2]\n"])
def test_a_task_file_must_be_a_map(task: str) -> None:
    with pytest.raises(Refused, match=r"^task\.yml: "):
        compile_example(task)


def test_a_file_over_a_megabyte_is_refused() -> None:
    with pytest.raises(Refused, match=r"reference\.py has 1000001 bytes: at most 1000000"):
        compile_example(reference_py=b"#" * 1_000_001)


def test_a_file_that_is_no_text_is_refused() -> None:
    with pytest.raises(Refused, match=r"statement\.md is not UTF-8 at byte 2"):
        compile_example(statement_md=b"# \xff")


def test_two_texts_under_one_name_are_refused() -> None:
    task = (
        replace_in_task("source: task.py", "source: template.py") + "templates: {Python: task.py}\n"
    )
    with pytest.raises(Refused, match=r"'task\.py' exists with another text"):
        compile_example(task)


@pytest.mark.parametrize(
    ("line", "warning"),
    [
        ("templates: {Mojo: template.py}", "'Mojo' is not one of CUDA"),
        ("libraries: [einops]", "libraries are not checked"),
    ],
)
def test_what_is_probably_not_meant_warns(line: str, warning: str) -> None:
    (actual,) = compile_example(f"{TASK}{line}\n").warnings
    assert warning in actual


def test_cases_without_a_seed_warn() -> None:
    (warning,) = compile_example(replace_in_task("size: 64, seed: 7", "size: 64")).warnings
    assert warning.startswith("a case without 'seed' varies by global generators only")


@pytest.mark.parametrize("size", ["0", "17", "true", "two", "1.5"])
def test_a_world_is_of_one_to_sixteen_gpus(size: str) -> None:
    task = replace_in_task("size: 64, seed: 7", f"size: 64, seed: 7, world_size: {size}")
    with pytest.raises(Refused, match=r"this case has the world_size .*: write 1 to 16"):
        compile_example(task.replace("lang: py", "multi_gpu: true\nlang: py"))


def test_a_world_without_several_gpus_warns() -> None:
    (warning,) = compile_example(replace_in_task("seed: 7", "seed: 7, world_size: 2")).warnings
    assert "all ranks share one GPU" in warning


def test_an_empty_map_of_templates_is_legal() -> None:
    assert compile_example(TASK + "templates: {}\n").warnings == ()
