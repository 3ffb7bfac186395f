"""Every language has an example in the catalogue, and the table of languages says what is tested.

All of them solve `axpy`. None of these files has run on a GPU.
"""

import ast
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from harness.build import command
from harness.worker import native
from shared.problems.submission_file import read_directives
from tests.problems.loaded_problem import PROBLEMS, LoadedProblem, opened
from tests.support.platform import ROOT

from .builds import built

SOLUTIONS = PROBLEMS / "axpy/solutions"
ARCHITECTURES = ("sm_80", "sm_90a", "sm_100")
# What Debian 12's hipcc compiles for; it knows no newer GPU of data centres.
HIP_ARCHITECTURE = "gfx90a"
# No package index has the headers of ThunderKittens.
THUNDERKITTENS = "WARPBOARD_THUNDERKITTENS"


class Example(NamedTuple):
    """The solutions in a language, and the test or the reason for each column of the table."""

    correct: str
    wrong: str
    compiled: str
    run: str
    rejected: str

    def row(self, language: str) -> str:
        """Return its row of the table in docs/languages.md."""
        folder = "../problems/axpy/solutions"
        files = (f"correct/{self.correct}", f"wrong/{self.wrong}")
        links = (f"[`{Path(file).name}`]({folder}/{file})" for file in files)
        cells = (f"`{cell}`" if cell.startswith("test_") else cell for cell in self[2:])
        return f"| {' | '.join((language, *links, *cells))} |"


HERE, IN_PROCESS = "test_it_runs_on_the_processor", "test_it_runs_in_a_process_of_its_own"
NVCC, NO_COMPILER = "test_nvcc_compiles_it", "needs no compiler"
IN_PYTHON = "test_python_compiles_it"
NEEDS_GPU = "needs a GPU"
LANGUAGES = {
    "PyTorch": Example("torch_alpha.py", "no_tail.py", NO_COMPILER, HERE, HERE),
    "Triton": Example(
        "triton_blocks.py",
        "triton_no_tail.py",
        "test_triton_compiles_it",
        IN_PROCESS,
        IN_PROCESS,
    ),
    "numba": Example("numba_loop.py", "numba_no_tail.py", HERE, HERE, HERE),
    "numba for CUDA": Example(
        "numba_cuda.py", "numba_cuda_no_tail.py", IN_PYTHON, IN_PROCESS, IN_PROCESS
    ),
    "JAX": Example("jax_dlpack.py", "jax_float16.py", IN_PROCESS, IN_PROCESS, IN_PROCESS),
    "CUDA in Python (`load_inline`)": Example(
        "load_inline_cuda.py", "load_inline_no_tail.py", NVCC, NEEDS_GPU, NEEDS_GPU
    ),
    "CuTe DSL": Example(
        "cute_dsl_threads.py", "cute_dsl_no_factor.py", IN_PYTHON, NEEDS_GPU, NEEDS_GPU
    ),
    "C++": Example("cpp_loop.cpp", "cpp_no_tail.cpp", HERE, HERE, HERE),
    "CUDA C++": Example("cuda_float4.cu", "cuda_no_tail.cu", NVCC, NEEDS_GPU, NEEDS_GPU),
    "CUDA C++ with NVRTC": Example(
        "nvrtc_kernel.cu", "nvrtc_no_tail.cu", "test_nvrtc_compiles_it", NEEDS_GPU, NEEDS_GPU
    ),
    "cuBLAS": Example("cublas_saxpy.cu", "cublas_no_factor.cu", NVCC, NEEDS_GPU, NEEDS_GPU),
    "CUTLASS": Example("cutlass_tiles.cu", "cutlass_no_tail.cu", NVCC, NEEDS_GPU, NEEDS_GPU),
    "ThunderKittens": Example(
        "kittens_vectors.cu", "kittens_no_tail.cu", NVCC, NEEDS_GPU, NEEDS_GPU
    ),
    "HIP": Example(
        "hip_kernel.hip", "hip_no_factor.hip", "test_hipcc_compiles_it", NEEDS_GPU, NEEDS_GPU
    ),
}
# What `compile_python` calls a language, and the module that it needs. numba makes the PTX of the
# newest GPU that it knows for newer ones.
COMPILED_IN_PYTHON = {
    "CuTe DSL": ("cute_dsl", "cutlass.cute", ["sm_80", "sm_90a", "sm_100"]),
    "numba for CUDA": ("numba", "numba", ["sm_80", "sm_90", "sm_90"]),
}
# What runs in a process of its own: the module it needs, its environment, and how many of the
# cases; a simulator of CUDA starts a thread for each value.
ALONE = {
    "Triton": ("triton", {"TRITON_INTERPRET": "1"}, 5),
    "numba for CUDA": ("numba", {"NUMBA_ENABLE_CUDASIM": "1"}, 3),
    "JAX": ("jax", {"JAX_PLATFORMS": "cpu"}, 5),
}
# Triton's targets, and what the compiled text names.
TARGETS = {
    "cuda:80": "sm_80",
    "cuda:90": "sm_90a",
    "cuda:100": "sm_100a",
    "hip:gfx942": "amdgcn-amd-amdhsa--gfx942",
}
# Triton's interpreter truncates to bfloat16, where a GPU rounds.
TRUNCATED = {"rmsnorm", "rope", "swiglu"}
TRITON_SOLUTIONS = sorted(PROBLEMS.glob("*/solutions/correct/triton_*.py"))


def languages(test: str) -> list[str]:
    """Return the languages whose row names a test."""
    return [language for language, example in LANGUAGES.items() if test in example]


def test_the_table_of_languages_is_what_the_tests_show() -> None:
    page = (ROOT / "docs/languages.md").read_text(encoding="utf-8")
    table = page.partition("| wrong one rejected |\n")[2].partition("\n\n")[0].splitlines()[1:]
    assert table == [example.row(language) for language, example in LANGUAGES.items()]


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_language_has_a_correct_and_a_wrong_example(language: str) -> None:
    example = LANGUAGES[language]
    correct, wrong = (SOLUTIONS / "correct" / example.correct, SOLUTIONS / "wrong" / example.wrong)
    assert read_directives(correct.read_text()).leaderboard == "axpy"
    for path in (correct, wrong):
        gpus = read_directives(path.read_text()).gpus
        assert ("CPU" in (gpus or ("CPU",))) == (example.run == HERE)
    named = {cell for cell in example if cell.startswith("test_")}
    assert named <= set(globals())


@pytest.mark.long
@pytest.mark.parametrize("language", languages(HERE))
def test_it_runs_on_the_processor(
    language: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if language == "C++":
        request.getfixturevalue("gxx")
    example = LANGUAGES[language]
    with opened("axpy") as problem:
        for file, is_correct in (
            (f"correct/{example.correct}", True),
            (f"wrong/{example.wrong}", False),
        ):
            kernel = load_kernel(problem, file, tmp_path)
            complaints = [problem.complaint(kernel, case) for case in problem.cases]
            assert (complaints == [None] * len(complaints)) == is_correct, complaints


@pytest.mark.long
@pytest.mark.parametrize("language", languages(IN_PROCESS))
def test_it_runs_in_a_process_of_its_own(language: str) -> None:
    module, environment, cases_count = ALONE[language]
    require_module(module)
    example = LANGUAGES[language]
    files = (f"correct/{example.correct}", f"wrong/{example.wrong}")
    pairs = [word for file in files for word in ("axpy", file)]
    right, wrong = run_module("run_example", cases_count, *pairs, **environment)
    assert right == [None] * cases_count
    assert any(complaint is not None for complaint in wrong)


@pytest.mark.long
def test_the_triton_solutions_of_the_catalogue_run_in_its_interpreter() -> None:
    require_module("triton")
    pairs = [word for path in TRITON_SOLUTIONS for word in solution_words(path)]
    results = run_module("run_example", 2, *pairs, TRITON_INTERPRET="1")
    named = zip(pairs[::2], results, strict=True)
    wrong = {slug: result for slug, result in named if result != [None, None]}
    assert set(wrong) == TRUNCATED, wrong


@pytest.mark.long
def test_the_triton_solutions_of_the_catalogue_compile() -> None:
    require_module("triton")
    pairs = [word for path in TRITON_SOLUTIONS for word in solution_words(path)]
    results = run_module("compile_triton", "cuda:90", *pairs)
    named = dict(zip(map(str, TRITON_SOLUTIONS), results, strict=True))
    assert {name: result for name, result in named.items() if isinstance(result, str)} == {}
    for kernels in named.values():
        assert kernels
        assert all(kernel["target"] == "sm_90a" and kernel["is_built"] for kernel in kernels)


@pytest.mark.long
@pytest.mark.usefixtures("nvcc")
# The headers of CUTLASS take a minute on a machine that is busy.
@pytest.mark.timeout(300)
@pytest.mark.parametrize("folder", ["correct", "wrong"])
@pytest.mark.parametrize("language", languages(NVCC))
def test_nvcc_compiles_it(
    language: str, folder: str, tmp_path: Path, memory: int, request: pytest.FixtureRequest
) -> None:
    example, folders = LANGUAGES[language], header_folders(language)
    # The wrong file differs by a line or two: it is compiled for one GPU.
    architectures = ARCHITECTURES if folder == "correct" else ARCHITECTURES[:1]
    variables = {}
    if language == "cuBLAS":
        cuda = request.getfixturevalue("cuda_wheel")
        programs = f"{cuda}/bin{os.pathsep}{command.search_path()}"
        variables = {"PATH": programs, "LIBRARY_PATH": f"{cuda}/lib"}
    file = example.correct if folder == "correct" else example.wrong
    made = built(
        tmp_path,
        "kernel.cu",
        cuda_source(SOLUTIONS / folder / file),
        memory,
        architecture=architectures[0],
        more_architectures=architectures[1:],
        libraries=folders,
        variables=variables,
    )
    assert made.startswith(b"\x7fELF")
    # cuBLAS has the kernel, which is linked at load time.
    assert (b"cublasSaxpy" if language == "cuBLAS" else b"axpy") in made
    assert (b"libcublas.so" in made) == (language == "cuBLAS")


@pytest.mark.long
@pytest.mark.usefixtures("hipcc")
@pytest.mark.parametrize("language", languages("test_hipcc_compiles_it"))
def test_hipcc_compiles_it(language: str, tmp_path: Path, memory: int) -> None:
    for file in (f"correct/{LANGUAGES[language].correct}", f"wrong/{LANGUAGES[language].wrong}"):
        os.ftruncate(memory, 0)
        os.lseek(memory, 0, os.SEEK_SET)
        source = (SOLUTIONS / file).read_text()
        made = built(tmp_path, "kernel.hip", source, memory, architecture=HIP_ARCHITECTURE)
        assert made.startswith(b"\x7fELF")
        assert f"amdgcn-amd-amdhsa--{HIP_ARCHITECTURE}".encode() in made
        assert b"axpy" in made


@pytest.mark.long
@pytest.mark.parametrize("language", languages(IN_PYTHON))
def test_python_compiles_it(language: str, tmp_path: Path, cuda_wheel: Path) -> None:
    name, module, targets = COMPILED_IN_PYTHON[language]
    require_module(module)
    # numba looks for libraries in lib64, but the wheels have lib alone.
    (tmp_path / "nvvm").mkdir()
    for link, folder in (
        ("bin", "bin"),
        ("lib64", "lib"),
        ("nvvm/lib64", "lib"),
        ("nvvm/libdevice", "nvvm/libdevice"),
    ):
        (tmp_path / link).symlink_to(cuda_wheel / folder)
    files = (f"correct/{LANGUAGES[language].correct}", f"wrong/{LANGUAGES[language].wrong}")
    architectures = ",".join(ARCHITECTURES)
    results = run_module("compile_python", name, architectures, *files, CUDA_HOME=str(tmp_path))
    assert len(results) == len(files)
    for kernels in results:
        assert [kernel["target"] for kernel in kernels] == [[target] for target in targets]
        for kernel in kernels:
            (entry,) = kernel["kernel"]
            assert "axpy" in entry
            assert kernel["is_built"]


@pytest.mark.long
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("language", languages("test_nvrtc_compiles_it"))
def test_nvrtc_compiles_it(
    language: str, architecture: str, tmp_path: Path, memory: int, nvrtc: str
) -> None:
    for file in (f"correct/{LANGUAGES[language].correct}", f"wrong/{LANGUAGES[language].wrong}"):
        os.ftruncate(memory, 0)
        os.lseek(memory, 0, os.SEEK_SET)
        source = (SOLUTIONS / file).read_text()
        made = built(
            tmp_path, "submission.cu", source, memory, architecture=architecture, nvrtc=nvrtc
        )
        assert made.startswith(b"\x7fELF")


@pytest.mark.long
def test_triton_compiles_it() -> None:
    require_module("triton")
    example = LANGUAGES["Triton"]
    pairs = ("axpy", f"correct/{example.correct}", "axpy", f"wrong/{example.wrong}")
    for kernels in run_module("compile_triton", ",".join(TARGETS), *pairs):
        assert [kernel["target"] for kernel in kernels] == list(TARGETS.values())
        assert all(kernel["kernel"] == "axpy" and kernel["is_built"] for kernel in kernels)


def load_kernel(problem: LoadedProblem, file: str, folder: Path) -> Callable[[Any], Any]:
    """Return the custom_kernel of a solution; C++ is compiled first."""
    path = SOLUTIONS / file
    if command.detect_language(file) is None:
        return problem.kernel(f"solutions/{file}")
    # It stays open, since a library is known by its descriptor.
    memory = os.memfd_create("built", os.MFD_CLOEXEC)
    built(folder, path.name, path.read_text(), memory)
    library = native.load_built_kernel(memory)

    def custom_kernel(data: tuple[float, Any, Any]) -> Any:
        a, x, y = data
        output = y.new_empty(y.shape)
        library.bind([x, y], [output])(json.dumps([a]).encode())
        return output

    return custom_kernel


def cuda_source(path: Path) -> str:
    """Return the CUDA source of a solution: the file, or the text in a Python file."""
    text = path.read_text()
    if path.suffix != ".py":
        return text
    for node in ast.parse(text).body:
        match node:
            case ast.Assign(
                targets=[ast.Name(id="CUDA_SOURCE")], value=ast.Constant(value=str() as source)
            ):
                return source
    raise AssertionError(f"{path} has no CUDA_SOURCE")


def header_folders(language: str) -> Sequence[str]:
    """Return the folders of the headers that a language needs; skip if they are not here."""
    name = language.lower()
    if name not in command._HEADERS:
        return ()
    if folder := command.find_includes().get(name):
        return (folder,)
    if name == "cutlass":
        pytest.skip("the headers of CUTLASS are not here: pip install nvidia-cutlass")
    if folder := os.environ.get(THUNDERKITTENS):
        return (folder,)
    pytest.skip(f"set {THUNDERKITTENS} to the include folder of HazyResearch/ThunderKittens")


def solution_words(path: Path) -> tuple[str, str]:
    """Return a solution as the modules that run and compile it take it: its problem and file."""
    return path.parents[2].name, f"correct/{path.name}"


def require_module(name: str) -> None:
    """Skip if a module is not installed."""
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")


def run_module(module: str, *arguments: object, **environment: str) -> Any:
    """Run a module of this folder, and return what it prints as JSON."""
    line = [sys.executable, "-W", "ignore", "-m", f"tests.toolchains.{module}"]
    output = subprocess.check_output(
        [*line, *map(str, arguments)], cwd=ROOT, env={**os.environ, **environment}, timeout=110
    )
    return json.loads(output)
