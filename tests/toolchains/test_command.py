"""A submission is built by a fixed command, and may add little to it."""

import pytest

from harness.build.command import (
    BuildPaths,
    BuildRefused,
    Directives,
    compiles_at_import,
    detect_language,
    make_build_order,
    parse_directives,
)

BENCH = BuildPaths("/submission/a.cu", "/scratch/made/built", "sm_90a", ("/opt/cutlass/include",))


def _flags(text: str, language: str = "cuda") -> tuple[str, ...]:
    return parse_directives(f"//!WARPBOARD flags: {text}\n".encode(), language).flags


@pytest.mark.parametrize(
    ("name", "language"),
    [("a.cpp", "cpp"), ("a.cu", "cuda"), ("a.hip", "hip"), ("a.py", None), ("cu", None)],
)
def test_the_suffix_says_the_language(name: str, language: str | None) -> None:
    assert detect_language(name) == language


@pytest.mark.parametrize(
    "flag",
    [
        "-O",
        "-O0",
        "-Ofast",
        "-std=c++17",
        "--std=c++20",
        "-std=gnu++23",
        "-DTILE=64",
        "-DDEBUG",
        "-DX=1.5e-3",
        "-UNDEBUG",
        "--use_fast_math",
        "-use_fast_math",
        "-maxrregcount=64",
        "--maxrregcount=128",
        "--extended-lambda",
        "--expt-relaxed-constexpr",
        "-lcublas",
        "-lcublasLt",
    ],
)
def test_an_allowed_flag_is_passed_on(flag: str) -> None:
    assert _flags(flag) == (flag,)


@pytest.mark.parametrize(
    "flag",
    [
        "-fplugin=/submission/evil.so",
        "-B/scratch",
        "-specs=/submission/specs",
        "-I/etc",
        "-include",
        "/etc/shadow",
        "@/submission/flags",
        "-Wl,-T/submission/script",
        "-lpython3.11",
        "-l:evil.so",
        "-lcublas,--script=x",
        "-l/submission/evil",
        "-L/submission",
        "-o",
        "-Xcompiler",
        "-D",
        "-DX=`id`",
        "-DX=a/b",
        "-DX=$(id)",
        '-DX="y"',
        "-O3;id",
        "-std=c++17\x00",
        "-maxrregcount=1000",
        "-maxrregcount=x",
        "--keep-dir=/",
        "-D" + "X" * 200,
    ],
)
def test_any_other_flag_is_refused_with_what_is_allowed(flag: str) -> None:
    with pytest.raises(BuildRefused, match="is not allowed: allowed are -O"):
        _flags(flag)


@pytest.mark.parametrize("flag", ["--use_fast_math", "-lcublas"])
def test_a_flag_of_another_compiler_is_refused(flag: str) -> None:
    with pytest.raises(BuildRefused, match=f"'{flag}' is not allowed"):
        _flags(flag, "cpp")


def test_libraries_come_after_what_uses_them() -> None:
    order = make_build_order(Directives("cuda", ("-lcublas", "-DN=4", "-lcublasLt")), BENCH)
    assert order.arguments[-4:] == ("-o", "/scratch/made/built", "-lcublas", "-lcublasLt")
    assert "-DN=4" in order.arguments


def test_too_many_flags_are_refused() -> None:
    with pytest.raises(BuildRefused, match="17 flags are requested, at most 16 are allowed"):
        _flags(" ".join(["-O2"] * 17))


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("//!WARPBOARD flags: -O1\n//!WARPBOARD flags: -O2\n", "repeated directive 'flags'"),
        ("//!WARPBOARD flag: -O1\n", "unknown directive 'flag': there are flags, compiler, launch"),
        ("//!WARPBOARD compiler: clang\n", "the compiler 'clang' cannot be requested"),
        ("//!WARPBOARD compiler: nvrtc\n", "together with 'compiler: nvrtc'"),
        ("//!WARPBOARD launch: grid=1, block=1\n", "together with 'compiler: nvrtc'"),
    ],
)
def test_a_directive_that_makes_no_sense_is_refused(source: str, text: str) -> None:
    with pytest.raises(BuildRefused, match=text):
        parse_directives(source.encode(), "cuda")


def test_only_leading_comments_hold_directives() -> None:
    source = b"// by me\n\n//!warpboard FLAGS: -O2\nint x;\n//!WARPBOARD flags: -fplugin=x\n"
    assert parse_directives(source, "cpp") == Directives("cpp", ("-O2",))


def test_bytes_that_are_no_text_hold_no_directive() -> None:
    assert parse_directives(b"// \xff\xfe\n//!WARPBOARD flags: -O1", "cpp").flags == ("-O1",)
    assert parse_directives(b"\0" * 100, "cpp").flags == ()


def test_the_platform_writes_the_rest_of_the_command() -> None:
    made = make_build_order(Directives("cuda", ("-DN=4",)), BENCH)
    line = " ".join(made.arguments)
    assert line == (
        "nvcc -O3 -std=c++20 -shared -Xcompiler -fPIC"
        " -gencode arch=compute_90a,code=[compute_90a,sm_90a]"
        " -DN=4 -I/opt/cutlass/include /submission/a.cu -o /scratch/made/built"
    )


def test_each_language_has_its_own_compiler() -> None:
    lines = {name: make_build_order(Directives(name), BENCH).arguments for name in ("cpp", "hip")}
    assert lines["cpp"][:2] == ("g++", "-O3")
    assert lines["hip"][0] == "hipcc"
    assert "--offload-arch=sm_90a" in lines["hip"]


def test_nvrtc_is_asked_for_the_architecture() -> None:
    source = b"//!WARPBOARD compiler: nvrtc\n//!WARPBOARD launch: grid=1, block=32\n"
    asked = parse_directives(source, "cuda")
    assert asked.launch == "grid=1, block=32"
    made = make_build_order(
        asked, BuildPaths("/submission/a.cu", "/x", "sm_90a", nvrtc="/lib/libnvrtc.so.13")
    )
    assert made.arguments == ("--gpu-architecture=sm_90a",)
    assert made.nvrtc == "/lib/libnvrtc.so.13"


def test_a_source_that_loads_extensions_is_told_from_others() -> None:
    assert compiles_at_import(b"from torch.utils.cpp_extension import load_inline")
    assert not compiles_at_import(b"# no cpp_extension here\nx = 'cpp_extension'\n")
    assert not compiles_at_import(b"x = (  # cpp_extension")
    assert not compiles_at_import(b"import torch")
