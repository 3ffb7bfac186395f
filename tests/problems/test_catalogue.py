"""The shipped problems are complete; `make problems` runs all of their solutions."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from harness.build.command import DRIVER, HEADER
from harness.build.plan import (
    BuildCache,
    BuildTools,
    adapt_tools,
    plan_driver_build,
    survey_tools,
)
from harness.check.forms import load_native_functions
from harness.problem import AuthorActivity, RunDirectory, load_problem
from shared.problem_folders import read_problem_files
from shared.problems.compilation import compile_problem
from shared.problems.document import read_document
from shared.problems.submission_file import read_directives
from tests.cli.command_runner import run_warpboard
from tests.problems.loaded_problem import (
    PROBLEMS,
    SLUGS,
    LoadedProblem,
    bits_apart,
    forms,
    opened,
    parts,
    torch,
)

TRACKS = {"first-steps", "memory-bound", "compute-bound", "llm-inference"}
SECTIONS = ("$$", "| | shape | dtype |", "`custom_kernel(data)`", "**Correct** means", "**Sizes.**")
HINT = re.compile(r"^\* ", re.MULTILINE)
ENTROPY_BITS_MIN = 64
# One solution of each kind, run in this process; each shows another form of answer.
PAIRS = [
    ("axpy", "torch_alpha", "into_x"),
    ("compact", "torch_mask", "strict"),
    ("fp8-quantize", "torch_frexp", "half_up"),
    ("moe-routing", "torch_stable_sort", "last_of_equals"),
    ("rope", "torch_float32", "overwritten"),
]


# Problems in one file of C++ or CUDA.
NATIVE = {"sort-keys": "reference.cpp", "heat-step": "reference.cu"}


def test_there_are_twenty_problems_over_four_tracks() -> None:
    tracks: dict[str, list[str]] = {name: [] for name in TRACKS}
    for slug in SLUGS:
        own_tracks = TRACKS & set(_extras(slug)["tags"])
        assert len(own_tracks) == 1, f"{slug} is of the tracks {sorted(own_tracks)}: name one"
        tracks[own_tracks.pop()].append(slug)
    assert len(SLUGS) >= 20
    assert all(len(slugs) >= 4 for slugs in tracks.values()), tracks


@pytest.mark.parametrize("slug", SLUGS)
def test_a_problem_compiles_without_a_warning(slug: str) -> None:
    version = compile_problem(slug, read_problem_files(PROBLEMS / slug))
    assert not version.warnings
    assert "CPU" in version.gpus
    assert version.cases_count["tests"] >= 5


@pytest.mark.parametrize("slug", SLUGS)
def test_a_statement_says_all_that_is_asked(slug: str) -> None:
    statement = (PROBLEMS / slug / "statement.md").read_text(encoding="utf-8")
    missing = [part for part in SECTIONS if part not in statement]
    assert not missing
    assert len(HINT.findall(statement.partition("**Hints**")[2])) >= 3


@pytest.mark.parametrize("slug", SLUGS)
def test_a_problem_has_solutions_of_each_kind(slug: str) -> None:
    solutions = PROBLEMS / slug / "solutions"
    correct = {path: path.read_text() for path in (solutions / "correct").glob("*.py")}
    wrong = [path.read_text() for path in (solutions / "wrong").glob("*.py")]
    gpus = {path: read_directives(text).gpus for path, text in correct.items()}
    assert any(path.stem.startswith("torch_") for path in correct)
    assert any(not path.stem.startswith("torch_") and "CPU" in gpus[path] for path in correct)
    assert len(wrong) >= 4
    assert all(
        text.lstrip().startswith(('"""', "#!POPCORN")) for text in (*correct.values(), *wrong)
    )
    for path, text in correct.items():
        assert read_directives(text).leaderboard == slug
        assert ("import triton" not in text) or "CPU" not in gpus[path]


@pytest.mark.parametrize("slug", SLUGS)
def test_inputs_follow_from_the_seed_and_are_hard_to_guess(slug: str) -> None:
    with opened(slug) as problem:
        results = [_seeded(problem, case) for case in problem.cases]
    assert results[-1] >= ENTROPY_BITS_MIN


@pytest.mark.parametrize("slug", SLUGS)
def test_a_check_takes_the_reference_and_changes_nothing(slug: str) -> None:
    with opened(slug) as problem:
        for case in problem.cases:
            assert problem.complaint(problem.reference.ref_kernel, case) is None
        data = problem.data(case)
        flat = problem.answer(case)
        before = parts(data).clone(), flat.clone()
        answer = flat.rebuild(flat.tensors)
        problem.reference.check_implementation(data, answer)
        assert bits_apart((data, answer), before) == 0


@pytest.mark.parametrize("slug", SLUGS)
def test_lazy_answers_are_wrong(slug: str) -> None:
    with opened(slug) as problem:
        case = problem.cases[-1]
        assert problem.complaint(problem.kernel("template.py"), case)
        right = problem.answer(case)
        for index, tensor in enumerate(right.tensors):
            for lazy in _lazy(tensor):
                tensors = [lazy if i == index else t for i, t in enumerate(right.tensors)]
                answer = right.rebuild(tensors)
                is_right, _ = problem.reference.check_implementation(problem.data(case), answer)
                assert not is_right, f"part {index} may be {lazy.flatten()[:4]}"


@pytest.mark.feature("N4")
@pytest.mark.parametrize(("slug", "correct", "wrong"), PAIRS)
def test_solutions_end_as_their_folder_says(slug: str, correct: str, wrong: str) -> None:
    with opened(slug) as problem:
        kernel = problem.kernel(f"solutions/correct/{correct}.py")
        assert [problem.complaint(kernel, case) for case in problem.cases] == [None] * 5
        kernel = problem.kernel(f"solutions/wrong/{wrong}.py")
        assert any(problem.complaint(kernel, case) for case in problem.cases)


@pytest.mark.parametrize(("slug", "file"), NATIVE.items())
def test_a_problem_in_one_native_file_is_complete(slug: str, file: str) -> None:
    version = compile_problem(slug, read_problem_files(PROBLEMS / slug))
    assert not version.warnings
    assert version.files["reference_code.cuh"] == (PROBLEMS / slug / file).read_bytes()
    assert ("CPU" in version.gpus) == (slug == "sort-keys")
    assert version.works
    statement = (PROBLEMS / slug / "statement.md").read_text(encoding="utf-8")
    assert all(part in statement for part in ("$$", "**Correct** means", "**Sizes.**"))
    assert len(HINT.findall(statement.partition("**Hints**")[2])) >= 3
    for kind, least in (("correct", 2), ("wrong", 4)):
        texts = [path.read_text() for path in (PROBLEMS / slug / "solutions" / kind).iterdir()]
        assert len(texts) >= least
        assert {read_directives(text).leaderboard for text in texts} == {slug}


@pytest.mark.box
@pytest.mark.long
@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
def test_native_problems_pass_their_check(tmp_path: Path) -> None:
    paths = [PROBLEMS / slug for slug in NATIVE]
    result = run_warpboard("problem", "check", *paths, XDG_CACHE_HOME=str(tmp_path))
    assert result.exit_code == 0, result.output
    # What needs a GPU is not shown.
    assert "sort-keys compiles: 4 files, ranked by last, 2 of 2 correct passed" in result.output
    assert "4 of 4 wrong found" in result.output
    assert "6 not shown here" in result.output


@pytest.mark.long
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc")
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a", "sm_100"])
def test_cuda_solutions_compile(architecture: str, tmp_path: Path) -> None:
    """Compiles what a run with this GPU compiles; no GPU has run it."""
    version = compile_problem("heat-step", read_problem_files(PROBLEMS / "heat-step"))
    for name, data in {**version.files, "manifest.json": version.manifest}.items():
        (tmp_path / name).write_bytes(data)
    problem = load_problem(tmp_path)
    for path in (HEADER, *DRIVER.parent.iterdir()):
        shutil.copyfile(path, tmp_path / path.name)
    tools = BuildTools({"nvcc": ""}, {}, (), "", "", architecture)
    sources = sorted((PROBLEMS / "heat-step" / "solutions").glob("*/*.cu"))
    # Newer GPUs differ in nothing that these files use, so one file shows it for them.
    for source in sources if architecture == "sm_90a" else sources[:1]:
        shutil.copyfile(source, tmp_path / source.name)
        (tmp_path / "built").mkdir(exist_ok=True)
        plan = plan_driver_build(
            tools, problem, [source.read_bytes()], str(tmp_path / source.name), str(tmp_path)
        )
        assert plan.order is not None
        done = subprocess.run(
            plan.order.arguments, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, f"{source.name}: {done.stderr}"


@pytest.mark.long
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc")
def test_a_reference_compiled_for_a_gpu_is_loaded(tmp_path: Path) -> None:
    """nvcc, unlike g++, exports no function that has a type of an unnamed namespace."""
    source, cache, out = (tmp_path / name for name in ("problem", "cache", "out"))
    for folder in (source, cache, out):
        folder.mkdir()
    version = compile_problem("heat-step", read_problem_files(PROBLEMS / "heat-step"))
    for name, data in {**version.files, "manifest.json": version.manifest}.items():
        (source / name).write_bytes(data)
    out_folder, cache_folder = (os.open(path, os.O_RDONLY) for path in (out, cache))
    directory = RunDirectory(
        folder=tmp_path,
        problem=load_problem(source),
        submission=tmp_path,
        scratch=tmp_path,
        out=out_folder,
        mark=AuthorActivity(),
    )
    tools = adapt_tools(survey_tools(), "sm_90a")
    try:
        # This closes the cache's folder.
        load_native_functions(directory, tools, BuildCache(cache_folder))
    finally:
        os.close(out_folder)


def _seeded(problem: LoadedProblem, case: dict[str, Any]) -> int:
    """Return how many bits differ between the inputs of two seeds; one seed is used twice."""
    first, same, other = (problem.data(case, seed=seed) for seed in (5, 5, 2**62 + 6))
    assert bits_apart(first, same) == 0
    assert parts(first).scalars == parts(same).scalars
    assert forms(parts(first)) == forms(parts(other))
    return bits_apart(first, other)


def _lazy(right: Any) -> list[Any]:
    """Return answers of the right form that need no computation."""
    answers = [torch().zeros_like(right), torch().ones_like(right)]
    if right.dtype.is_floating_point:
        answers += [right.clone(), right.clone()]
        answers[-2].view(-1)[-1] = float("nan")
        answers[-1].view(-1)[0] = float("inf")
    return answers


def _extras(slug: str) -> Any:
    return read_document("warpboard.yml", (PROBLEMS / slug / "warpboard.yml").read_bytes()).value
