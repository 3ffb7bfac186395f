"""A submission is loaded, or the error is described."""

from pathlib import Path

import pytest

from harness.entry import isolation
from harness.worker.protocol import TEXT_CHARS_MAX, SubmissionFailure
from harness.worker.submission import explain_exception, load_kernel
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


def test_a_text_is_cut_at_its_beginning(tmp_path: Path) -> None:
    said = explain_exception(
        ValueError("y" * 10_000 + "the end"), tmp_path / "submission.py", "exception"
    )
    assert len(said.text) == TEXT_CHARS_MAX
    assert said.text.endswith("the end")


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
