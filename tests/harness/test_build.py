"""A submission is loaded, or the error is described."""

import shutil
from pathlib import Path

import pytest

from harness.entry import isolation
from harness.messages import describe_outcome, failed_case_report, worker_failure
from harness.worker.explanations import explain_compiler, explain_exception
from harness.worker.protocol import TEXT_CHARS_MAX, SubmissionFailure
from harness.worker.submission import load_kernel
from tests.support.harness import HONEST, Host


def _load(folder: Path, source: bytes) -> object:
    path = folder / "submission.py"
    path.write_bytes(source)
    return load_kernel(path)


def test_the_function_is_found(tmp_path: Path) -> None:
    kernel = _load(tmp_path, b"def custom_kernel(data):\n    return data + 1\n")
    assert callable(kernel)
    assert kernel(1) == 2


@pytest.mark.parametrize(
    ("source", "kind", "text"),
    [
        (b"def custom_kernel(data:\n", "compile_error", "SyntaxError: '(' was never closed"),
        (b"# caf\xe9\n", "compile_error", "'utf-8' codec can't decode"),
        (b"a = '\0'\n", "compile_error", "null bytes"),
        (b"", "import_error", "submission.py defines no function custom_kernel"),
        (b"custom_kernel = 3\n", "import_error", "submission.py defines no function custom_kernel"),
        (b"import nothing_of_that_name\n", "import_error", "ModuleNotFoundError"),
        (b"import sys\nsys.exit(4)\n", "import_error", "the submission called exit(4)"),
        (b"raise KeyboardInterrupt\n", "import_error", "KeyboardInterrupt"),
        (b"raise MemoryError\n", "memory", "MemoryError"),
        (b"raise RuntimeError('Error building extension x')", "compile_error", "extension x"),
        (b"def f():\n    1 / 0\nf()\n", "import_error", 'File "submission.py", line 2, in f'),
    ],
)
def test_what_cannot_be_loaded_has_a_kind_and_a_text(
    tmp_path: Path, source: bytes, kind: str, text: str
) -> None:
    with pytest.raises(SubmissionFailure) as caught:
        _load(tmp_path, source)
    assert caught.value.kind == kind
    assert text in caught.value.text
    assert str(tmp_path) not in caught.value.text


def test_a_long_text_keeps_its_beginning_and_its_end(tmp_path: Path) -> None:
    said = explain_exception(
        ValueError("the beginning" + "y" * 10_000 + "the end"),
        tmp_path / "submission.py",
        "exception",
    )
    assert len(said.text) == TEXT_CHARS_MAX
    assert said.text.startswith("ValueError: the beginning")
    assert said.text.endswith("the end")


class _Silent(Exception):  # noqa: N818  (an exception of a submission may have any name)
    """An exception, and a value of exit, whose own text fails."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


@pytest.mark.parametrize("error", [_Silent(), SystemExit(_Silent())])
def test_an_exception_whose_text_fails_is_still_explained(
    tmp_path: Path, error: BaseException
) -> None:
    said = explain_exception(error, tmp_path / "submission.py", "exception")
    assert said.kind == "exception"
    assert "no text" not in said.text
    assert "failed" in said.text or "exit()" in said.text


COMMAND = "c++ -MMD -MF main.o.d -isystem /agent/site-packages/torch/include -c main.cpp -o main.o"
PLACE = "/scratch/cache/add/main.cpp"
BUILDING = f"Error building extension 'add': [1/2] {COMMAND}\nFAILED: [code=1] main.o\n{COMMAND}\n"
UNDECLARED = "main.cpp:5:11: error: 'undefined' was not declared in this scope"
BUILDS_ITSELF = """
import os, subprocess
from torch.utils import cpp_extension
folder = os.path.join(os.environ["HOME"], "mine", "build")
source, library = os.path.join(folder, "k.cpp"), os.path.join(folder, "k.so")
if not os.path.exists(library):
    print("COMPILES", flush=True)
    os.makedirs(folder)
    with open(source, "w") as file:
        file.write("int one() { return 1; }")
    subprocess.run(["g++", "-shared", "-fPIC", source, "-o", library], check=True)
"""


def test_a_compilers_first_error_is_the_reason_and_not_its_command_line(tmp_path: Path) -> None:
    output = f"{PLACE}: In function 'f':\n/scratch/cache/add/{UNDECLARED}\n    5 | int x\n"
    error = RuntimeError(f"{BUILDING}{output}ninja: build stopped: subcommand failed.\n")
    failure = explain_exception(error, tmp_path / "submission.py", "import_error")
    assert failure.kind == "compile_error"
    assert failure.text.splitlines()[0] == UNDECLARED
    assert "-isystem" not in failure.text
    assert "Error building extension 'add'" in failure.text
    case = failed_case_report("", "build", worker_failure(failure.kind, failure.text))
    assert UNDECLARED in describe_outcome(case)[:300]


def test_the_output_of_a_compiler_in_a_call_leads_with_its_error_too(tmp_path: Path) -> None:
    error = RuntimeError(
        f"C++ compile error\nCommand:\n{COMMAND}\nOutput:\n{PLACE}:7:1: error: oops"
    )
    failure = explain_exception(error, tmp_path / "submission.py", "exception")
    assert failure.kind == "exception"
    assert failure.text.splitlines()[0] == "main.cpp:7:1: error: oops"


@pytest.mark.parametrize(
    "line",
    [
        "c++: fatal error: Killed signal terminated program cc1plus",
        "cc1plus: out of memory allocating 4294967312 bytes after a total of 606208 bytes",
    ],
)
def test_a_compiler_without_memory_says_so_first(line: str) -> None:
    failure = explain_compiler(f"In file included from k.cpp:1:\n{line}\ncompilation terminated.\n")
    assert failure.kind == "memory"
    assert failure.text.startswith(f"the compiler reached the memory limit: {line}")


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
def test_what_a_build_left_in_a_folder_of_its_own_is_found_again(host: Host) -> None:
    report = host.run(BUILDS_ITSELF + HONEST)
    assert report.verdict == "passed", report.reason
    assert (host.out / "log.txt").read_text().count("COMPILES") == 1


@pytest.mark.long
def test_torchs_compiler_keeps_nothing_larger_than_a_box(host: Host) -> None:
    # With its precompiled headers torch.compile ran out of room in every box of the processor.
    asked = "import torch._inductor.config as c\nassert not c.cpp_cache_precompile_headers\n"
    assert host.run(asked + HONEST).verdict == "passed"


def test_who_could_compile_and_does_not_has_a_timed_box_like_any_other(host: Host) -> None:
    """A file that names cpp_extension is first loaded by a builder with more memory."""
    asks = (
        "import os, resource\n"
        "scratch = os.statvfs(os.environ['TMPDIR'])\n"
        "print('LIMITS', resource.getrlimit(resource.RLIMIT_AS)[0] >> 30,\n"
        "      scratch.f_blocks * scratch.f_frsize >> 20, flush=True)\n"
    )
    extension = "from torch.utils import cpp_extension\n"
    host.run(asks + HONEST)
    (usual,) = limits_of(host)
    host.run(extension + asks + HONEST)
    builder, timed = limits_of(host)
    assert timed == usual
    assert builder != usual


@pytest.mark.long
def test_the_memory_of_a_builder_is_not_that_of_a_timed_box(host: Host) -> None:
    require_memory_group()
    takes = "    kept = bytearray(3 * 1024**3 // 2)\n    return "
    source = "from torch.utils import cpp_extension\n" + HONEST.replace("    return ", takes)
    assert host.run(source).verdict == "out_of_memory"


def limits_of(host: Host) -> list[str]:
    """What each box of the last run printed about its limits."""
    lines = (host.out / "log.txt").read_text().splitlines()
    return [line for line in lines if line.startswith("LIMITS")]


def require_memory_group() -> None:
    if "memory" not in isolation().walls:
        pytest.skip("no control group limits memory here")
