"""Submissions of several files: what a run lays beside the entry, and what it screens."""

from collections.abc import Mapping
from typing import Any

import pytest

from harness.check.screen import Screening, quote_lines, screen_source
from harness.entry import RunReport, RunRequest
from harness.messages import request_from_line, to_line
from harness.problem import ShortcutPolicy
from harness.vocabulary import BOX_FILES
from tests.harness.test_languages import needs_compiler
from tests.support.harness import HONEST, Host

NO_PRODUCTS = ShortcutPolicy(["torch.matmul"])
OWN_KERNEL = ShortcutPolicy(own_kernel="required")

PYTHON_ENTRY = """\
from pathlib import Path

import copying
from lib.rows import row_count


def custom_kernel(data):
    assert row_count() == int((Path(__file__).parent / "lib" / "rows.txt").read_text())
    return copying.copy(data)
"""
PYTHON_FILES = {
    "copying.py": "def copy(data):\n    data[1].copy_(data[0])\n    return data[1]\n",
    "lib/__init__.py": "",
    "lib/rows.py": "from .constants import ROWS\n\n\ndef row_count():\n    return ROWS\n",
    "lib/constants.py": "ROWS = 3\n",
    "lib/rows.txt": "3\n",
}
CPP_ENTRY = """\
#include "warpboard.h"
#include "lib/copy.hpp"

extern "C" int custom_kernel(const wb_tensor *inputs, int, wb_tensor *outputs, int, const char *,
                             void *) {
  long count = 1;
  for (int i = 0; i < inputs[0].ndim; i++) count *= inputs[0].shape[i];
  copy_all((const float *)inputs[0].data, (float *)outputs[0].data, count);
  return 0;
}
"""
CPP_FILES = {
    "lib/copy.hpp": '#pragma once\n#include "copy.inl"\n',
    "lib/copy.inl": """\
inline void copy_all(const float *from, float *to, long count) {
  for (long i = 0; i < count; i++) to[i] = from[i];
}
""",
}


def run(host: Host, source: str, files: Mapping[str, str], **more: Any) -> RunReport:
    for name, text in files.items():
        path = host.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return host.run(source, others=list(files), **more)


def test_a_python_entry_imports_and_reads_the_files_beside_it(host: Host) -> None:
    report = run(host, PYTHON_ENTRY, PYTHON_FILES)
    assert (report.verdict, report.reason) == ("passed", "every case passed")


@needs_compiler
def test_a_changed_header_is_built_again(host: Host) -> None:
    assert run(host, CPP_ENTRY, CPP_FILES, suffix=".cpp").verdict == "passed"
    broken = CPP_FILES | {
        "lib/copy.inl": CPP_FILES["lib/copy.inl"].replace("from[i]", "from[i] + 1")
    }
    assert run(host, CPP_ENTRY, broken, suffix=".cpp").verdict == "wrong_answer"
    unfinished = CPP_FILES | {"lib/copy.inl": "inline void copy_all("}
    report = run(host, CPP_ENTRY, unfinished, suffix=".cpp")
    assert report.verdict == "compile_error"
    assert "copy.inl" in report.reason


def test_the_files_cannot_be_changed_by_the_submission(host: Host) -> None:
    entry = "from pathlib import Path\nPath(__file__).with_name('copying.py').write_text('')\n"
    report = run(host, entry + HONEST, {"copying.py": ""})
    assert report.verdict == "import_error"
    assert "Read-only file system" in report.reason or "Permission denied" in report.reason


@pytest.mark.parametrize("name", ["utils.py", "warpboard.h"])
def test_no_file_replaces_one_of_ours(host: Host, name: str) -> None:
    assert name in BOX_FILES
    report = run(host, CPP_ENTRY, {name: "", "lib/copy.hpp": ""}, suffix=".cpp")
    assert (report.verdict, report.failure_code) == ("", "supervisor")
    assert name in report.reason


@pytest.mark.parametrize("name", ["../out/x.py", "/etc/x.py", "lib/../../x.py", ""])
def test_no_file_leads_out_of_the_folder(name: str) -> None:
    line = to_line(RunRequest("problem", "submission.py", "test", "out", others=[name]))
    with pytest.raises(ValueError, match="not a request") as refused:
        request_from_line(line)
    assert "no path within" in str(refused.value.__cause__)


def test_a_forbidden_use_is_found_in_every_file(host: Host) -> None:
    host.told_besides = {"shortcuts": {"forbid": ["torch.matmul"], "own_kernel": ""}}
    files = {"product.py": "import torch as t\n\n\ndef product(a, b):\n    return t.mm(a, b)\n"}
    report = run(host, f"from product import product\n{HONEST}", files)
    assert report.verdict == "policy"
    assert "product.py, line 5: torch.mm (torch.matmul is not allowed)" in report.reason
    assert "return t.mm(a, b)" in report.reason


def screen(policy: ShortcutPolicy, **files: str) -> Screening:
    names = {name.replace("_dot_", "."): text.encode() for name, text in files.items()}
    return screen_source(names, policy)


def test_a_name_is_followed_through_the_modules_of_a_submission() -> None:
    entry = "import helper\nhelper.library.matmul(a, b)\n"
    found = screen(NO_PRODUCTS, k_dot_py=entry, helper_dot_py="import torch as library\n")
    assert found.hits == ["k.py, line 2: torch.matmul is not allowed"]
    assert found.doubts == []
    circle = {"a_dot_py": "import b\nx = b.x\n", "b_dot_py": "import a\nx = a.x\n"}
    assert screen(NO_PRODUCTS, **circle) == Screening()


def test_a_kernel_in_any_file_is_the_submissions_own() -> None:
    kernel = "import triton\n\n\n@triton.jit\ndef kernel(a):\n    pass\n"
    entry = "import helper\n"
    missing = "it defines no kernel of its own, which the problem requires"
    assert screen(OWN_KERNEL, k_dot_py=entry, helper_dot_py="x = 1\n").hits == [f"k.py: {missing}"]
    assert screen(OWN_KERNEL, k_dot_py=entry, helper_dot_py=kernel) == Screening()
    assert screen(OWN_KERNEL, k_dot_py="x = 1\n").hits == [missing]


def test_a_native_file_of_a_python_submission_is_screened() -> None:
    policy = ShortcutPolicy(["cublas"])
    native = "// cublas is fine in a comment\n#include <cublas_v2.h>\n"
    found = screen(policy, k_dot_py="x = 1\n", helper_dot_cuh=native)
    assert found.hits == ["helper.cuh, line 2: #include <cublas (cublas is not allowed)"]
    assert quote_lines(found.hits, {"k.py": b"", "helper.cuh": native.encode()}).endswith(
        "    #include <cublas_v2.h>"
    )
