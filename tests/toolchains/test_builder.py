"""A builder returns the compiler's result, or its messages."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.worker import programs
from harness.worker.protocol import SubmissionFailure

from .builds import CPP, built, contents, ordered

CU = """\
#include "warpboard.h"
__global__ void add(const float *x, float *y, int64_t n) {
    int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + ADDED;
}
int custom_kernel(const wb_tensor *in, int, wb_tensor *out, int, const char *, void *stream) {
    int64_t n = wb_numel(out);
    add<<<(n + 255) / 256, 256, 0, (cudaStream_t)stream>>>(
        (const float *)in[0].data, (float *)out[0].data, n);
    return cudaGetLastError();
}
"""


def _refused(folder: Path, source: str, memory: int) -> SubmissionFailure:
    with pytest.raises(SubmissionFailure) as caught:
        built(folder, "submission.cpp", source, memory)
    assert contents(memory) == b""
    return caught.value


@pytest.mark.usefixtures("gxx")
def test_a_cpp_source_becomes_a_library(tmp_path: Path, memory: int) -> None:
    assert built(tmp_path, "submission.cpp", CPP, memory).startswith(b"\x7fELF")


@pytest.mark.long
@pytest.mark.usefixtures("nvcc")
def test_a_cuda_source_becomes_a_library(tmp_path: Path, memory: int) -> None:
    source = "//!WARPBOARD flags: -DADDED=2 --use_fast_math -maxrregcount=64\n" + CU
    made = built(tmp_path, "submission.cu", source, memory, architecture="sm_90a")
    assert made.startswith(b"\x7fELF")
    assert b"custom_kernel" in made


@pytest.mark.usefixtures("nvcc")
def test_a_cuda_error_is_told(tmp_path: Path, memory: int) -> None:
    with pytest.raises(SubmissionFailure, match='identifier "ADDED" is undefined'):
        built(tmp_path, "submission.cu", CU, memory, architecture="sm_90a")


@pytest.mark.usefixtures("gxx")
def test_a_compile_error_is_told_where_it_is(
    tmp_path: Path, memory: int, capfd: pytest.CaptureFixture[str]
) -> None:
    error = _refused(tmp_path, "//!WARPBOARD flags: -DN=4\nint x = nothing;\n", memory)
    assert error.kind == "compile_error"
    assert error.text.startswith("submission.cpp:2:9: error: 'nothing' was not declared")
    first, *said, last = capfd.readouterr().out.splitlines()
    assert first.startswith("$ g++ -O3 -std=c++20 ")
    assert first.endswith(" -DN=4 submission.cpp -o built")
    assert said == error.text.splitlines()
    assert last == "exit code 1"


@pytest.mark.usefixtures("gxx")
def test_a_header_that_a_box_does_not_show_is_not_found(tmp_path: Path, memory: int) -> None:
    error = _refused(tmp_path, '#include "/nowhere/secret.h"\n', memory)
    assert "/nowhere/secret.h: No such file or directory" in error.text


@pytest.mark.usefixtures("gxx")
def test_a_flood_of_errors_keeps_head_and_tail(
    tmp_path: Path, memory: int, capfd: pytest.CaptureFixture[str]
) -> None:
    error = _refused(tmp_path, "first_one;\n" + "oops;\n" * 5000, memory)
    assert "first_one" in error.text
    assert "bytes are left out here]" in error.text
    assert len(error.text) < 2000
    printed = capfd.readouterr().out
    assert "first_one" in printed
    assert len(printed) < 2 * programs.KEPT_BYTES + 300
    assert printed.startswith("$ g++ ")
    assert printed.endswith("\nexit code 1\n")


@pytest.mark.usefixtures("gxx")
def test_a_template_bomb_ends_with_a_verdict(tmp_path: Path, memory: int) -> None:
    bomb = "template <long n> struct A { A<n + 1> a, b; };\nA<0> a;\n"
    assert _refused(tmp_path, bomb, memory).kind == "compile_error"


@pytest.mark.usefixtures("gxx")
def test_a_bomb_of_memory_ends_as_out_of_memory(tmp_path: Path, memory: int) -> None:
    tens = "".join(f"#define A{n + 1} {f'A{n} ' * 10}\n" for n in range(9))
    bomb = f"#define A0 1,\n{tens}int a[] = {{ A9 }};\n"
    order = ordered(tmp_path, "submission.cpp", bomb)
    status, text = _limited(order, memory)
    assert (status, text.partition(":")[0]) == (3, "memory"), text


def test_a_result_larger_than_allowed_is_refused(tmp_path: Path, memory: int) -> None:
    order = _order(tmp_path, "head -c 11 /dev/zero > made")
    with pytest.raises(SubmissionFailure, match="more than 10 bytes") as caught:
        programs.run_build_order(order, memory)
    assert caught.value.kind == "compile_error"
    assert contents(memory) == b""


def test_a_compiler_without_a_result_has_failed(tmp_path: Path, memory: int) -> None:
    with pytest.raises(SubmissionFailure, match="the compiler failed without a message"):
        programs.run_build_order(_order(tmp_path, "true"), memory)


def test_a_missing_compiler_is_named(tmp_path: Path, memory: int) -> None:
    order = {**_order(tmp_path, ""), "arguments": ["no-such-compiler"]}
    with pytest.raises(SubmissionFailure, match="no-such-compiler cannot be run here"):
        programs.run_build_order(order, memory)


def test_a_compiler_that_never_stops_talking_is_ended(tmp_path: Path, memory: int) -> None:
    with pytest.raises(SubmissionFailure, match="the compiler printed more than"):
        programs.run_build_order(_order(tmp_path, "yes error"), memory)


def test_a_compiler_that_was_killed_says_by_what(
    tmp_path: Path, memory: int, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SubmissionFailure, match="the compiler failed without a message"):
        programs.run_build_order(_order(tmp_path, "kill -9 $$"), memory)
    command, end = capfd.readouterr().out.splitlines()
    assert command.startswith("$ /bin/sh -c")
    assert end == "signal 9"


def test_a_failed_compiler_has_no_result(tmp_path: Path, memory: int) -> None:
    with pytest.raises(SubmissionFailure, match="sorry"):
        programs.run_build_order(_order(tmp_path, "echo x > made; echo sorry >&2; exit 1"), memory)


def _order(folder: Path, script: str) -> dict[str, Any]:
    return {
        "arguments": ["/bin/sh", "-c", f"cd {folder}; {script}"],
        "source": "",
        "output": str(folder / "made"),
        "nvrtc": "",
        "bytes_max": 10,
        "environment": {},
    }


def _limited(order: dict[str, object], memory: int) -> tuple[int, str]:
    """A build with little memory and time, as in a box without a memory cgroup."""
    code = (
        "import json, resource, sys\n"
        "from harness.worker import programs\n"
        "from harness.worker.protocol import SubmissionFailure\n"
        "for what, most in ((resource.RLIMIT_DATA, 2**28), (resource.RLIMIT_FSIZE, 2**26)):\n"
        "    resource.setrlimit(what, (most, most))\n"
        "try:\n"
        f"    programs.run_build_order(json.loads(sys.stdin.read()), {memory})\n"
        "except SubmissionFailure as error:\n"
        "    sys.exit((print(f'{error.kind}: {error.text}', file=sys.stderr), 3)[1])\n"
    )
    import json

    ended = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(order),
        text=True,
        capture_output=True,
        pass_fds=[memory],
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    return ended.returncode, ended.stderr
