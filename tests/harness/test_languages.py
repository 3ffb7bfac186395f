"""Native files, from the request to the report, in their own boxes."""

import shutil
from pathlib import Path

import pytest

from tests.support.harness import HONEST, Host

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is missing here")

COPY = """
#include "warpboard.h"
extern "C" int custom_kernel(const wb_tensor *inputs, int inputs_count, wb_tensor *outputs,
                             int outputs_count, const char *scalars_json, void *stream) {
  const float *from = (const float *)inputs[0].data;
  float *to = (float *)outputs[0].data;
  long count = 1;
  for (int i = 0; i < inputs[0].ndim; i++) count *= inputs[0].shape[i];
  for (long i = 0; i < count; i++) to[i] = from[i]WRONG;
  return 0;
}
"""


@needs_compiler
def test_a_native_file_is_built_in_a_box_and_judged(host: Host) -> None:
    assert host.run(COPY.replace("WRONG", ""), suffix=".cpp").verdict == "passed"
    wrong = host.run(COPY.replace("WRONG", " + 1"), suffix=".cpp")
    assert wrong.verdict == "wrong_answer"


@needs_compiler
def test_what_the_compiler_says_reaches_the_participant(host: Host) -> None:
    report = host.run("this is no program", suffix=".cpp")
    assert (report.verdict, report.stage) == ("compile_error", "build")
    assert "error:" in report.reason


@needs_compiler
def test_a_builder_sees_nothing_of_this_machine(host: Host, tmp_path: Path) -> None:
    secret = tmp_path / "secret.h"
    secret.write_text("#error the secret is out\n")
    report = host.run(f'#include "{secret}"\n#include "/etc/shadow"\n', suffix=".cpp")
    assert report.verdict == "compile_error"
    assert "the secret is out" not in report.reason + report.log_head
    assert "root:" not in report.reason + report.log_head


def test_a_flag_that_is_not_allowed_is_refused_by_name(host: Host) -> None:
    report = host.run("//!WARPBOARD flags: -fplugin=x.so\n", suffix=".cpp")
    assert report.verdict == "compile_error"
    assert "-fplugin=x.so" in report.reason


def test_a_cuda_file_needs_a_gpu(host: Host) -> None:
    report = host.run("__global__ void k() {}\n", suffix=".cu")
    assert report.verdict == "compile_error"
    assert "needs a GPU" in report.reason


def test_a_wrong_public_case_shows_its_first_wrong_elements(host: Host) -> None:
    off = HONEST.replace("data[0])", "data[0] + (data[0] == data[0].flatten()[5]))")
    case = host.run(off).cases[0]
    assert (case.verdict, case.wrong) == ("wrong_answer", 1)
    (shown,) = case.mismatches
    assert shown.index == "[1, 1]"
    assert float(shown.got) == pytest.approx(float(shown.expected) + 1, abs=1e-5)


def test_a_time_below_the_floor_is_held_for_review(host: Host) -> None:
    host.floor_us = 10_000_000
    report = host.run(HONEST, "benchmark")
    assert report.verdict == "suspicious"
    assert "below the floor" in report.reason


def test_a_level_below_what_is_demanded_is_refused(host: Host) -> None:
    report = host.run(HONEST, level_min="strong")
    assert report.failure_code in ("", "sandbox")
    assert (report.failure_code == "sandbox") == ("below strong" in report.reason)
