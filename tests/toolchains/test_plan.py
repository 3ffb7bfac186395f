"""The build of a submission is planned for this machine."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.build.command import BuildRefused
from harness.build.plan import (
    BuildPlan,
    BuildTools,
    ToolMissing,
    cache_folder,
    plan_build,
    plan_driver_build,
    survey_tools,
    worker_environment,
)
from harness.problem import Problem

TOOLS = {"g++": "12", "nvcc": "13.0", "nvrtc": "13.0", "torch": "2.13"}
SHOP = BuildTools(TOOLS, {"PATH": "/usr/bin"}, ("/opt/cutlass",), "/lib/libnvrtc.so", "x86_64")
GPU = replace(SHOP, gpu="sm_90a")
NVRTC = b"//!WARPBOARD compiler: nvrtc\n//!WARPBOARD launch: grid=1, block=1\n"


def _plan(source: bytes, suffix: str, shop: BuildTools = SHOP) -> BuildPlan:
    return plan_build(shop, (source,), f"/submission/submission{suffix}", "/scratch")


def test_python_is_planned_without_an_order() -> None:
    made = _plan(b"import torch\n", ".py")
    assert (made.is_native, made.is_heavy, made.launch) == (False, False, "")


def test_python_that_compiles_wants_the_limits_of_a_builder() -> None:
    assert _plan(b"from torch.utils import cpp_extension\n", ".py").is_heavy


def test_a_native_source_is_ordered() -> None:
    made = _plan(b"int x;", ".cpp")
    assert made.order is not None
    assert made.order.output == "/scratch/built/kernel"
    assert made.order.arguments[0] == "g++"
    assert made.order.environment == {"PATH": "/usr/bin"}


def test_a_source_for_nvrtc_carries_its_launch() -> None:
    made = _plan(NVRTC, ".cu", GPU)
    assert made.order is not None
    assert (made.launch, made.order.nvrtc) == ("grid=1, block=1", "/lib/libnvrtc.so")


@pytest.mark.parametrize("suffix", [".cu", ".hip"])
def test_a_kernel_for_a_gpu_is_refused_where_there_is_none(suffix: str) -> None:
    with pytest.raises(BuildRefused, match=f"a {suffix} submission needs a GPU"):
        _plan(b"", suffix)


def test_a_missing_compiler_is_the_fault_of_the_machine() -> None:
    with pytest.raises(ToolMissing, match="no nvcc on this machine"):
        _plan(b"", ".cu", replace(GPU, tools={"g++": "12"}))


def test_every_difference_makes_another_key() -> None:
    plans = [
        _plan(b"int x;", ".cpp"),
        _plan(b"int y;", ".cpp"),
        _plan(b"int x;", ".cpp", GPU),
        _plan(b"int x;", ".cpp", replace(SHOP, tools=TOOLS | {"g++": "13"})),
        _plan(b"int x;", ".cpp", replace(SHOP, processor="x86_64 avx")),
        _plan(b"//!WARPBOARD flags: -O1\nint x;", ".cpp"),
        _plan(b"int x;", ".py"),
        _plan(b"int x;", ".cu", GPU),
    ]
    assert len({made.key for made in plans}) == len(plans)
    assert plans[0] == _plan(b"int x;", ".cpp")


def test_a_text_that_moves_from_a_submission_to_its_header_makes_another_key() -> None:
    problem = Problem("p", Path(), {}, "submission.cu", (), (), "last", {}, lang="cu")
    pairs = ((b"int x;", b"int y;"), (b"int x;int ", b"y;"))
    plans = [
        plan_driver_build(SHOP, problem, one, "/in/submission.cu", "/scratch") for one in pairs
    ]
    assert plans[0].key != plans[1].key


def test_what_a_source_leaves_beside_one_problem_is_for_no_other() -> None:
    # Imported by the source, a problem's own file may put anything into what is kept.
    source = b"import task, torch.utils.cpp_extension\n"
    keys = {
        plan_build(SHOP, (source, beside), "/submission/submission.py", "/scratch").key
        for beside in (b"task.py\0", b"task.py\0import os", b"tusk.py\0")
    }
    assert len(keys) == 3


def test_the_key_does_not_depend_on_where_a_box_is() -> None:
    here = plan_build(SHOP, (b"int x;",), "/tmp/a/submission.cpp", "/tmp/a/scratch/0")
    there = plan_build(SHOP, (b"int x;",), "/tmp/b/submission.cpp", "/tmp/b/scratch/1")
    assert here.key == there.key
    assert here.order != there.order


def test_a_worker_keeps_all_caches_in_one_folder() -> None:
    told = worker_environment(SHOP, "/scratch")
    assert told["PATH"] == "/usr/bin"
    assert {told[name] for name in ("TORCH_EXTENSIONS_DIR", "TRITON_CACHE_DIR")} == {
        cache_folder("/scratch")
    }


def test_a_survey_tells_of_this_machine() -> None:
    shop = survey_tools()
    assert {"torch", "python"} <= set(shop.tools)
    assert shop.gpu == ""
    assert shop.environment["PATH"]
