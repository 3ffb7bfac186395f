"""A problem's shortcut policy: what the screen finds, what a run records, and how runs end."""

import json

import pytest

from harness.check.composition import kernel_part, read_composition
from harness.check.inputs import derive_seed
from harness.check.screen import (
    FINDING_CHARS_MAX,
    FINDINGS_MAX,
    Screening,
    screen_in_child,
    screen_source,
)
from harness.problem import ShortcutPolicy
from tests.support.harness import HONEST, REFERENCE, Host

TRITON_PRODUCT = """import triton
import triton.language as tl


@triton.jit
def kernel(a, b):
    total = tl.dot(a, b)
    return total + a @ b
"""
NO_PRODUCTS = ShortcutPolicy(["torch.matmul"])
NO_CUBLAS = ShortcutPolicy(["cublas"])
OWN_KERNEL = ShortcutPolicy(own_kernel="required")
HIDDEN_PRODUCT = """import torch

product = getattr(torch, "mat" + "mul")


def custom_kernel(data):
    values, output = data
    return output.copy_(product(values, torch.eye(len(values))))
"""


def screen(source: str, policy: ShortcutPolicy, *, is_python: bool = True) -> Screening:
    return screen_source({"k.py" if is_python else "k.cu": source.encode()}, policy)


@pytest.mark.feature("A6")
@pytest.mark.parametrize(
    ("source", "use"),
    [
        ("import torch\ntorch.matmul(a, b)", "torch.matmul"),
        ("import torch as t\nt.mm(a, b)", "torch.mm"),
        ("from torch import matmul as product\nproduct(a, b)", "torch.matmul"),
        ("import torch.nn.functional as F\nF.linear(a, b)", "torch.nn.functional.linear"),
        ("from torch import nn\nnn.Linear(3, 4)", "torch.nn.Linear"),
        ("import torch\nproduct = torch.bmm\nproduct(a, b)", "torch.bmm"),
        ("import torch\nlinear = torch.nn.functional\nlinear.linear(a, b)", "functional.linear"),
        ("import torch\ngetattr(torch, 'einsum')('ij,jk', a, b)", "torch.einsum"),
        ("import torch\ntorch.ops.aten.mm.default(a, b)", "torch.ops.aten.mm"),
        ("import torch\ntorch.Tensor.matmul(a, b)", "torch.Tensor.matmul"),
        ("def f(a, b):\n    return a @ b", "@"),
        ("def f(a, b):\n    a @= b", "@"),
        ("def f(a, b):\n    return a.matmul(b)", ".matmul"),
        ("import numpy\nnumpy.dot(a, b)", "numpy.dot"),
        ("import operator\noperator.matmul(a, b)", "operator.matmul"),
        ("def f(a, b):\n    return getattr(a, 'matmul')(b)", ".matmul"),
        ("import triton\n@triton.testing.perf_report\ndef f(a, b):\n    return a @ b", "@"),
        ("import torch\ntorch.nn.functional.torch.matmul(a, b)", "torch.matmul"),
        ("import torch.nn.functional.torch as t\nt.matmul(a, b)", "torch.matmul"),
    ],
)
def test_each_way_to_name_a_product_is_a_hit_with_its_line(source: str, use: str) -> None:
    hits = screen(source, NO_PRODUCTS).hits
    assert any(use in hit and hit.startswith("line ") for hit in hits), hits


@pytest.mark.parametrize(
    "source",
    [
        HONEST,
        '"""Not torch.matmul, and no cublas."""\n# torch.matmul\nprint("faster than cublas")',
        TRITON_PRODUCT,
        "class Matrix:\n    pass\n\n\nitems = []\nitems.sort()",
        "def matmul(a, b):\n    return a\n\n\nmatmul(1, 2)\nsort = matmul",
        "class Model:\n    def __init__(self):\n        self.linear = mine\n        self.linear(1)",
        "class Sizes:\n    inner: int = 4\n\n\nprint(sizes.inner)",
        "import cupy\nmodule = cupy.RawModule(code='void matmul()')\nmodule.matmul(a, b)",
        "import ctypes\nlibrary = ctypes.CDLL('a.so')\nlibrary.mm.argtypes = []",
        "import torch\ntorch.ops.mine.matmul(a, b)",
    ],
)
def test_what_only_looks_like_a_product_is_no_hit(source: str) -> None:
    assert screen(source, ShortcutPolicy(["torch.matmul", "torch.sort", "cublas"])).hits == []


@pytest.mark.parametrize(
    ("source", "use"),
    [
        (HIDDEN_PRODUCT, "line 3: getattr"),
        ("exec('a' + 'b')", "exec"),
        ("import importlib\nimportlib.import_module('to' + 'rch')", "importlib"),
        ("import sys\nsys.modules['torch']", "sys.modules"),
        ("import torch\ntorch.__dict__['mat' + 'mul']", "torch.__dict__"),
        ("from torch import *", "import *"),
        ("import threading\nthreading.Thread(target=f)", "threading"),
        ("def mm(a):\n    return a\n\n\nx.mm(y)", ".mm may be its own"),
        ("def f(a, b):\n    product = a.mm\n    return product(b)", ".mm may be its own"),
        (f"{TRITON_PRODUCT}kernel.fn(a, b)", "fn can hide"),
        ("import torch\ntorch.nn.modules.linear.Linear(3, 4)", "torch.nn.modules.linear.Linear"),
    ],
)
def test_what_hides_a_call_is_a_doubt_and_no_hit(source: str, use: str) -> None:
    screening = screen(source, NO_PRODUCTS)
    assert screening.hits == []
    assert any(use in doubt for doubt in screening.doubts), screening.doubts


@pytest.mark.parametrize("source", [HIDDEN_PRODUCT, "import torch\ntorch.matmul(a, b)"])
def test_without_a_policy_everything_is_allowed(source: str) -> None:
    assert screen(source, ShortcutPolicy()) == Screening()


def test_forbidden_libraries_are_found_in_cuda_and_in_cuda_within_python() -> None:
    code = (
        "// cublasSgemm( is only named here\n#include <cublas_v2.h>\n\ncublasSgemm(handle, n);\n"
        "// at::matmul(a)\nauto c = at::matmul(a, b);\n"
    )
    expected = [
        "line 2: #include <cublas (cublas is not allowed)",
        "line 4: cublasSgemm (cublas is not allowed)",
        "line 6: at::matmul (cublas, which it calls, is not allowed)",
    ]
    assert screen(code, NO_CUBLAS, is_python=False).hits == expected
    in_python = screen(f"SOURCE = '''\n{code}'''\n", NO_CUBLAS).hits
    assert [hit.partition(":")[2] for hit in in_python] == [
        text.partition(":")[2] for text in expected
    ]
    linked = screen("load(extra_ldflags=['-lcublas'])", NO_CUBLAS).hits
    assert linked == ["line 1: -lcublas (cublas is not allowed)"]
    assert screen("#include <cute/tensor.hpp>", ShortcutPolicy(["cutlass"]), is_python=False).hits


def test_what_may_hide_a_call_in_cuda_is_a_doubt_and_no_hit() -> None:
    code = (
        "// a.matmul(b) and dlopen(name)\nat::Tensor c = a.matmul(b);\nauto d = p->mm(b);\n"
        "auto f = dlsym(dlopen(name, RTLD_NOW), call);\nauto mm = 1;\n"
    )
    expected = [
        "line 2: .matmul may be torch's",
        "line 3: .mm may be torch's",
        "line 4: dlopen can hide what is called",
        "line 4: dlsym can hide what is called",
    ]
    assert screen(code, NO_CUBLAS, is_python=False) == Screening(doubts=expected)
    assert screen("own.mm(b);\n", NO_CUBLAS, is_python=False) == Screening()
    assert len(screen(f"SOURCE = '''\n{code}'''\n", NO_CUBLAS).doubts) == len(expected)


def test_slashes_in_a_path_hide_no_library() -> None:
    (hit,) = screen("load(extra_ldflags=['//usr/lib/libcublas.so'])", NO_CUBLAS).hits
    assert hit == "line 1: libcublas.so (cublas is not allowed)"


def test_a_required_kernel_is_recognised_and_an_unknown_package_is_doubted() -> None:
    kernel = "import triton\n\n\n@triton.jit\ndef kernel(a):\n    pass\n"
    inline = "from torch.utils.cpp_extension import load_inline\nload_inline('a', 'b')\n"
    gluon = "from triton.experimental import gluon\n\n\n@gluon.jit\ndef kernel(a):\n    pass\n"
    library = "import ctypes\nctypes.cdll.LoadLibrary('kernel.so')\n"
    for source in (kernel, inline, gluon, library):
        assert screen(source, OWN_KERNEL).hits == []
    assert screen("int main() {}", OWN_KERNEL, is_python=False).hits == []
    (hit,) = screen("import torch\ntorch.add(a, b)", OWN_KERNEL).hits
    assert hit == "it defines no kernel of its own, which the problem requires"
    unknown = screen("import kernels_of_mine\n", OWN_KERNEL)
    assert unknown.hits == []
    assert "kernels_of_mine may define one" in unknown.doubts[0]


@pytest.mark.parametrize("source", ["def (", "x = " + "(" * 5000, "\0"])
def test_a_source_that_cannot_be_parsed_is_doubted(source: str) -> None:
    assert screen(source, NO_PRODUCTS).doubts == ["the source cannot be parsed by the screen"]


def test_a_screen_takes_little_time_and_text_for_any_source() -> None:
    comments = "/*\n" * 40_000 + "cublasSgemm(handle)"
    assert screen(comments, NO_CUBLAS, is_python=False).hits == []
    name = "a" * 30_000
    long_name = screen(f"import torch.{name} as t\n" + "t.__dict__\n" * 20, NO_PRODUCTS)
    assert max(map(len, long_name.doubts)) <= FINDING_CHARS_MAX
    chain = "".join(f"b{index + 1} = b{index}.c\n" for index in range(1000))
    assert screen(f"import torch as b0\n{chain}", NO_PRODUCTS) == Screening()


def test_a_source_that_exhausts_the_screen_is_doubted_and_ends_nothing_else() -> None:
    large = {"k.py": b"a\n" * 500_000}
    unread = Screening(doubts=["the source cannot be parsed by the screen"])
    assert screen_in_child(large, NO_PRODUCTS, memory_bytes=1024**2) == unread
    assert screen_in_child(large, NO_PRODUCTS, limit_s=1) == unread
    small = screen_in_child({"k.py": HIDDEN_PRODUCT.encode()}, NO_PRODUCTS)
    assert small == screen(HIDDEN_PRODUCT, NO_PRODUCTS)


def test_findings_are_few() -> None:
    hits = screen("import torch\n" + "torch.mm(a, b)\n" * 50, NO_PRODUCTS).hits
    assert len(hits) == FINDINGS_MAX + 1
    assert hits[-1] == f"and {50 - FINDINGS_MAX} more"


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("ampere_sgemm_128x64_nn", "cublas"),
        ("nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NNT", "cublas"),
        ("void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm>(Params)", "cutlass"),
        ("void cudnn::cnn::conv2d_grouped_direct_kernel<float>", "cudnn"),
        ("void at::native::vectorized_elementwise_kernel<4>", "torch"),
        ("Memcpy DtoD (Device -> Device)", "copies"),
        ("add_kernel_0d1d2d", "own_kernels"),
        ("my_gemm(float*)", "own_kernels"),
    ],
)
def test_gpu_kernels_are_told_apart_by_name(name: str, part: str) -> None:
    assert kernel_part(name) == part


def record(**parts: object) -> bytes:
    known = {"total_us": 100.0, "overhead_us": 0.0, "operators": [], "kernels": []}
    return json.dumps(known | parts).encode()


def test_a_record_of_kernels_gives_shares_and_doubts() -> None:
    kernels = [["add_kernel", 1, 87.0], ["ampere_sgemm_128x64_nn", 2, 13.0]]
    composition = read_composition(record(kernels=kernels), NO_CUBLAS)
    assert composition is not None
    assert composition.shares == {"own_kernels": 0.87, "cublas": 0.13}
    assert composition.doubts == [
        "the kernel ampere_sgemm_128x64_nn ran 2 times in a call (cublas is not allowed)"
    ]


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"{", b"[]", b"[" * 100_000, b"9" * 5000),
        *(record(total_us="1"), record(kernels=[["a", 1]]), record(total_us=True)),
        record(overhead_us="1"),
        record(total_us=0.0, operators=[["aten::a", 1, 1e308], ["aten::b", 1, 1e308]]),
        record(kernels=[["a", 1, 1e308], ["a", 1, 1e308]]),
        record(operators=[["aten::mm", 10**4000, 1.0]]),
        record(operators=[["aten::mm", True, 1.0]]),
        record(operators=[["aten::mm", -1, 1.0]]),
        record(operators=[["aten::mm", 1, 1.0]] * 65),
        record(kernels=[["a" * 161, 1, 1.0]]),
    ],
)
def test_a_malformed_record_is_none(data: bytes) -> None:
    assert read_composition(data, NO_PRODUCTS) is None


def with_policy(host: Host, **policy: object) -> Host:
    host.told_besides = {"shortcuts": policy}
    return host


# Nearly all of a call is the work of one operator, some 50 ms.
SORTS = "import torch\n\nLINE = torch.rand(1_000_000)\n\n\n" + HONEST.replace(
    "data[1].copy_", "LINE.sort()\n    data[1].copy_"
)
PRODUCT = "import torch\n\n\ndef custom_kernel(data):\n    return torch.matmul(data[0], data[0])\n"


def test_a_native_submission_to_a_problem_in_python_is_screened_as_native(host: Host) -> None:
    source = (
        '#include "warpboard.h"\n\n'
        'extern "C" int custom_kernel(const wb_call *call) { return cublasSgemm(call); }\n'
    )
    report = with_policy(host, forbid=["cublas"]).run(source, suffix=".cpp")
    assert (report.verdict, report.stage) == ("policy", "build")
    assert "line 3: cublasSgemm" in report.reason


def test_a_hit_ends_the_run_before_the_submission_starts(host: Host) -> None:
    report = with_policy(host, forbid=["torch.matmul"]).run("print('it ran')\n" + PRODUCT)
    assert (report.verdict, report.stage) == ("policy", "build")
    assert "line 6: torch.matmul is not allowed" in report.reason
    assert report.log_head == ""


def test_an_honest_run_passes_and_shows_its_composition(host: Host) -> None:
    report = with_policy(host, forbid=["torch.matmul"]).run(SORTS)
    assert report.verdict == "passed"
    assert report.composition is not None
    assert set(report.composition.shares) <= {"own_code", "overhead", "torch"}
    assert sum(report.composition.shares.values()) == pytest.approx(1, abs=1e-3)
    assert report.composition.shares["torch"] > 0.5
    assert report.composition.operators == ["aten::sort", "aten::copy_"]
    assert report.composition.doubts == []


def test_launches_and_python_are_not_the_own_code_of_a_bare_call_of_torch(host: Host) -> None:
    report = with_policy(host, forbid=["torch.matmul"]).run(HONEST)
    assert report.composition is not None
    assert report.composition.operators == ["aten::copy_"]
    assert report.composition.shares.get("own_code", 0.0) < 0.1, report.composition


@pytest.mark.parametrize("mode", ["test", "benchmark"])
def test_a_hidden_product_passes_with_doubts_from_source_and_record(host: Host, mode: str) -> None:
    report = with_policy(host, forbid=["torch.matmul"]).run(HIDDEN_PRODUCT, mode)
    assert report.verdict == "passed"
    assert report.composition is not None
    by_source, by_record = report.composition.doubts
    assert by_source == "line 3: getattr can hide what is called"
    assert by_record == "aten::mm ran 1 times in a call (torch.matmul is not allowed)"


def test_a_falsified_record_does_not_lift_the_doubt_of_the_source(host: Host) -> None:
    source = (
        "from torch.utils import _python_dispatch\n\n"
        "_python_dispatch.TorchDispatchMode.__enter__ = lambda self: self\n"
        "_python_dispatch.TorchDispatchMode.__exit__ = lambda self, *_: None\n" + HIDDEN_PRODUCT
    )
    report = with_policy(host, forbid=["torch.matmul"]).run(source)
    assert report.verdict == "passed"
    assert report.composition is not None
    assert report.composition.operators == []
    assert report.composition.doubts == ["line 7: getattr can hide what is called"]


def test_a_recorded_call_that_fails_is_doubted_only_under_a_policy(host: Host) -> None:
    source = (
        "from torch.utils._python_dispatch import _get_current_dispatch_mode\n\n\n"
        "def custom_kernel(data):\n    assert _get_current_dispatch_mode() is None\n"
        "    data[1].copy_(data[0])\n    return data[1]\n"
    )
    free = host.run(source)
    assert (free.verdict, free.composition) == ("passed", None)
    bound = with_policy(host, forbid=["torch.matmul"]).run(source)
    assert bound.verdict == "passed"
    assert bound.composition is not None
    assert bound.composition.doubts == ["what it calls was not recorded"]


def test_a_record_whose_sums_are_not_finite_ends_no_run(host: Host) -> None:
    rows = '[["aten::a", 1, 1e308], ["aten::b", 1, 1e308]]'
    falsified = f'{{"total_us": 0, "overhead_us": 0, "operators": {rows}, "kernels": []}}'
    source = (
        "import os\n\nwrite = os.write\n"
        f"os.write = lambda descriptor, _: write(descriptor, {falsified.encode()!r})\n{HONEST}"
    )
    report = host.run(source)
    assert (report.verdict, report.failure_code, report.composition) == ("passed", "", None)


def test_a_fault_of_the_problem_in_the_recorded_call_takes_no_verdict_away(host: Host) -> None:
    key = "ab" * 32
    case = "size=8 seed=7"
    seeds = [derive_seed(bytes.fromhex(key), "record", case, 0, bits) for bits in (31, 63)]
    head = "def generate_input(size: int, seed: int"
    assert head in REFERENCE
    check = f"    if seed in {seeds}:\n        raise ValueError('a seed of the record')\n"
    before, _, after = REFERENCE.partition(head)
    rest, _, body = after.partition(":\n")
    host.files = {"reference.py": f"{before}{head}{rest}:\n{check}{body}"}
    report = host.run(HONEST, key=key)
    assert (report.verdict, report.failure_code, report.composition) == ("passed", "", None)
    assert "no composition was recorded" in report.log_head
