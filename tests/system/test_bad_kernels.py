"""Every kind of bad kernel, submitted for real, gets one clear answer."""

import re
import shutil
from pathlib import Path

import pytest

from tests.support.people import NATIVE, Person, add_problem
from tests.support.platform import ROOT

pytestmark = pytest.mark.server

SYNTAX = "def custom_kernel(data)\n    return data\n"
NO_KERNEL = "def kernel(data):\n    return data\n"
IMPORT = "import no_such_module\n"
ENDLESS = """CALLS = []
import time

def custom_kernel(data):
    while CALLS:
        time.sleep(1)
    CALLS.append(0)
    return data[-1].copy_(data[0])
"""
EXIT = "import os\n\ndef custom_kernel(data):\n    os._exit(0)\n"
EXIT_AT_IMPORT = "exit()\n"
RAISES = "def custom_kernel(data):\n    raise ValueError('my own mistake')\n"
SHAPE = "def custom_kernel(data):\n    return data[0][:1]\n"
DTYPE = "import torch\n\ndef custom_kernel(data):\n    return data[0].to(torch.float64)\n"
NAN = "def custom_kernel(data):\n    data[-1].fill_(float('nan'))\n    return data[-1]\n"
NOTHING = "def custom_kernel(data):\n    return data[-1]\n"
LOUD = "def custom_kernel(data):\n    for _ in range(100):\n        print('x' * 1_000_000)\n"
SEGFAULT = "import ctypes\n\ndef custom_kernel(data):\n    ctypes.string_at(0)\n"
PRODUCT = "import torch\n\n\ndef custom_kernel(data):\n    return torch.matmul(data[0], data[0])\n"


@pytest.mark.parametrize(
    ("source", "verdict", "code", "said"),
    [
        (SYNTAX, "compile_error", "build_failed", "line 1"),
        (NO_KERNEL, "import_error", "build_failed", "custom_kernel"),
        (IMPORT, "import_error", "build_failed", "no_such_module"),
        (ENDLESS, "timed_out", "timed_out", "took more than"),
        (EXIT, "crashed", "check_failed", "exit"),
        (EXIT_AT_IMPORT, "import_error", "build_failed", "exit"),
        (RAISES, "crashed", "check_failed", "my own mistake"),
        (SHAPE, "wrong_answer", "check_failed", "expected"),
        (DTYPE, "wrong_answer", "check_failed", "float64"),
        (NAN, "wrong_answer", "check_failed", "NaN"),
        # Of the random bits that nobody overwrites in one float, 1 in 256 are a NaN.
        (NOTHING, "wrong_answer", "check_failed", "differ|NaN"),
        (LOUD, "output_limit", "check_failed", "print"),
        (SEGFAULT, "crashed", "check_failed", "SIGSEGV"),
    ],
    ids=lambda value: value[:24].split("\n")[0] if isinstance(value, str) else None,
)
def test_a_bad_kernel_gets_one_clear_answer(
    ada: Person, source: str, verdict: str, code: str, said: str
) -> None:
    found = ada.end(ada.submit(source))
    assert (found["verdict"], found["code"]) == (verdict, code), found["reason"]
    assert re.search(said, found["reason"])
    assert found["is_eligible"] is False
    assert found["outcome"] in ("failed", "timed_out")


def test_the_platform_is_well_after_all_of_them(ada: Person) -> None:
    source = "def custom_kernel(data):\n    data[-1].copy_(data[0])\n    return data[-1]\n"
    assert ada.end(ada.submit(source))["verdict"] == "passed"


@pytest.mark.long  # It compiles.
def test_a_shortcut_policy_ends_what_it_forbids_and_ranks_an_own_kernel(
    ada: Person, tmp_path: Path
) -> None:
    slug = "no-shortcuts"
    shutil.copytree(ROOT / "problems" / "identity", tmp_path / slug)
    with (tmp_path / slug / "warpboard.yml").open("a") as file:
        file.write("forbid: [torch.matmul]\nown_kernel: required\n")
    add_problem(str(ada.http.base_url), tmp_path / slug)
    forbidden = ada.end(ada.submit(PRODUCT, "ranked", problem=slug))
    assert (forbidden["outcome"], forbidden["verdict"]) == ("failed", "policy")
    assert "line 5: torch.matmul is not allowed" in forbidden["reason"]
    assert "it defines no kernel of its own, which the problem requires" in forbidden["reason"]
    ranked = ada.end(ada.submit(NATIVE, "ranked", "kernel.cpp", slug))
    assert ranked["ranking"]["status"] == "ranked", ranked
    composition = ranked["composition"]
    assert (composition["shares"], composition["doubts"]) == ({"own_code": 1.0}, [])
    assert [entry["number"] for entry in ada.board(slug)] == [ranked["number"]]
    page = ada.http.get(f"/submissions/{ranked['number']}").text
    assert "Composition: 100 % own code" in page
