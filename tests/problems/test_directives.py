"""What a file says and needs: directives in the leading comment, imports, includes."""

import pytest

from shared.errors import Refused
from shared.problems.submission_file import (
    Directives,
    choose_precision,
    late_directives,
    parse_precision,
    read_directives,
    toolchains,
)

HEAD = "// a kernel\n\n//!POPCORN Leaderboard matmul\n//!popcorn GPU H100 CPU\n"


@pytest.mark.feature("P6")
def test_the_leading_block_says_board_and_gpus() -> None:
    directives = read_directives(HEAD + "int x;\n//!POPCORN gpus A100\n")
    assert (directives.leaderboard, directives.gpus) == ("matmul", ("H100", "CPU"))
    assert late_directives(HEAD) == []


@pytest.mark.parametrize(
    ("text", "value"),
    [("2%", 0.02), ("2 %", 0.02), ("0.02", 0.02), ("0.5%", 0.005), ("20%", 0.2), (".01", 0.01)],
)
def test_a_precision_is_a_percentage_or_a_fraction(text: str, value: float) -> None:
    assert parse_precision(text) == value
    assert read_directives(f"#!POPCORN precision {text}\n").precision == value


@pytest.mark.parametrize("text", ["", "%", "0", "2", "0.4%", "21%", "-1%", "1e-2", "nan", "٢%"])
def test_any_other_precision_is_refused_by_its_field(text: str) -> None:
    with pytest.raises(Refused, match=r"write 0\.5% to 20%") as caught:
        parse_precision(text)
    assert (caught.value.code, caught.value.field) == ("invalid_request", "precision")


def test_the_precision_of_a_file_is_for_its_benchmarks() -> None:
    directives = Directives(precision=0.02)
    modes = ("test", "benchmark", "profile", "ranked")
    assert [choose_precision(0.0, mode, directives) for mode in modes] == [0.0, 0.02, 0.0, 0.0]
    assert choose_precision(0.1, "benchmark", directives) == 0.1


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("ranked", "fixed for ranked runs.*: leave it out, or use mode benchmark"),
        ("test", "only for mode benchmark, not for test: leave it out"),
        ("profile", "only for mode benchmark, not for profile"),
    ],
)
def test_only_a_benchmark_takes_a_precision(mode: str, words: str) -> None:
    with pytest.raises(Refused, match=words) as caught:
        choose_precision(0.02, mode, Directives())
    assert caught.value.field == "precision"


def test_a_later_one_is_told_and_does_nothing() -> None:
    text = "import torch\n#!POPCORN leaderboard other\nx = 1  #!POPCORN gpus A100\n"
    assert read_directives(text).leaderboard is None
    assert late_directives(text) == [2]


@pytest.mark.feature("P6")
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("#!POPCORN", "no keyword"),
        ("#!POPCORN leaderboard", "takes one name"),
        ("#!POPCORN leaderboard a b", "takes one name"),
        ("#!POPCORN gpus", "one or more"),
        ("#!POPCORN mode test", "unknown directive 'mode'"),
        ("#!POPCORN precision", "one or more"),
        ("#!POPCORN parent none", "line 1: parent takes the number of one submission"),
        ("//!POPCORN parent 0", "line 1: parent takes the number of one submission"),
        ("#!POPCORN parent 9999999999999999999", "line 1: parent takes the number"),
        ("#!POPCORN precision 50%", "line 1: precision is '50%': write 0.5% to 20%"),
        ("#!POPCORN precision fine", "line 1: precision is 'fine'"),
        ("#!POPCORN gpu A\n#!POPCORN gpus B", "line 2: a second 'gpus'"),
    ],
)
def test_an_odd_directive_is_refused_with_its_line(line: str, words: str) -> None:
    with pytest.raises(Refused, match=words) as caught:
        read_directives(f"{line}\n")
    assert caught.value.code == "bad_directive"


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ("import torch; import numpy as np", ["numpy"]),
        ("from jax import numpy\nimport cupy.cuda as c, numba", ["jax", "cupy", "numba"]),
        ("def custom_kernel(data):\n    import cutlass.cute as cute", ["cute_dsl"]),
        ('"""\nimport jax\n"""\ntext = "import triton"  # import numba', []),
        (
            "try:\n    import triton\nexcept ImportError:\n    triton = None\nimport numba",
            ["numba"],
        ),
        ("if FAST:\n    import triton\n\n    x = 1\nelse:\n    import jax", []),
        ("from . import triton\nfrom .jax import x\nimport", []),
        ("from torch.utils.cpp_extension import load_inline", ["g++", "ninja"]),
        (
            "import torch.utils.cpp_extension as e\ne.load(cuda_sources=[])",
            ["g++", "ninja", "nvcc"],
        ),
        ("'''\nimport jax", []),
    ],
)
def test_a_python_file_needs_the_packages_that_it_imports_in_any_case(
    text: str, needed: list[str]
) -> None:
    assert toolchains("kernel.py", text) == needed


def test_an_extension_is_compiled_by_the_compiler_of_its_gpu() -> None:
    text = "from torch.utils.cpp_extension import load_inline\nload_inline(cuda_sources=[])"
    assert toolchains("kernel.py", text, "MI300X") == ["g++", "ninja", "hipcc"]


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ("#include <cublas_v2.h>\n# include <cute/tensor.hpp>", ["cublas", "cutlass"]),
        ('#include "kittens.cuh"', ["thunderkittens"]),
        ("// #include <cublas_v2.h>\n/*\n#include <cutlass/array.h>\n*/ #include <x>", []),
        ("#if 0\n#include <cublas_v2.h>\n#endif\n#include <cublasLt.h>", ["cublas"]),
        ("#ifdef FAST\n#include <cublas_v2.h>\n#endif", []),
    ],
)
def test_a_native_file_needs_the_libraries_that_it_includes_in_any_case(
    text: str, needed: list[str]
) -> None:
    assert toolchains("kernel.cu", text) == ["nvcc", *needed]


# Half a minute, if each unclosed string or comment were searched to the end of the file again.
@pytest.mark.timeout(30)
@pytest.mark.parametrize("text", ["\\'''", '\\"""', "'''", "import a\n", "/*", "if x:\n "])
def test_any_text_is_read_in_linear_time(text: str) -> None:
    for name in ("kernel.py", "kernel.cu"):
        toolchains(name, text * 100_000 + "\\")


@pytest.mark.parametrize("line", ["#!POPCORN parent 1234", "//!POPCORN parent #1234"])
def test_a_file_may_name_its_parent(line: str) -> None:
    assert read_directives(f"{line}\n").parent == 1234
