"""How a native submission is built: one fixed command line for each language.

A submission may request more in its leading comment lines, from an allow list alone:

    //!WARPBOARD flags: -O2 -std=c++17 -DTILE=64
    //!WARPBOARD compiler: nvrtc
    //!WARPBOARD launch: grid=(outputs[0].numel() + 255) // 256, block=256
"""

import io
import re
import token
import tokenize
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath

HEADER = Path(__file__).parent / "warpboard.h"
# A submission to a problem in C++ is compiled together with this driver.
DRIVER = HEADER.parent / "native" / "wb_submission.cpp"
LANGUAGES = {".cpp": "c++", ".cu": "cuda", ".hip": "hip"}
# The languages whose code needs no GPU.
HOST_LANGUAGES = ("c++",)
COMPILERS = {"c++": "g++", "cuda": "nvcc", "hip": "hipcc", "nvrtc": "nvrtc"}

BUILD_S_MAX = 120
BUILD_MEMORY_BYTES = 4 * 1024**3
BUILD_PROCESSES_MAX = 64
BUILT_BYTES_MAX = 64 * 1024**2

_CPP_EXTENSION = "cpp_extension"
_FLAGS_MAX = 16
_FLAG_CHARS_MAX = 100
_LEADING_LINES_MAX = 64
_DIRECTIVE = re.compile(r"//!\s*WARPBOARD\s+(\w+)\s*:\s*(.*)", re.IGNORECASE)
_TOPICS = ("flags", "compiler", "launch")
# What a submission may add, by the name that a refusal shows.
_FLAGS = {
    "-O*": re.compile(r"-O([0-3gsz]|fast)?"),
    "-std=*": re.compile(r"-?-std=(c|gnu)\+\+(11|14|17|20|23|2a|2b)"),
    "-DNAME[=VALUE], -UNAME": re.compile(r"-D[A-Za-z_]\w*(=[\w.+-]*)?|-U[A-Za-z_]\w*", re.ASCII),
    "--use_fast_math": re.compile(r"--?use_fast_math"),
    "-maxrregcount=N": re.compile(r"--?maxrregcount=\d{1,3}"),
    "--extended-lambda": re.compile(r"--?(extended-lambda|expt-extended-lambda)"),
    "--expt-relaxed-constexpr": re.compile(r"--?expt-relaxed-constexpr"),
    # A library by its name only: a path or another option of the linker could run foreign code.
    "-lcublas": re.compile(r"-lcublas"),
    "-lcublasLt": re.compile(r"-lcublasLt"),
}
_LEVEL, _STANDARD, _DEFINE, *_NVCC_FLAGS = _FLAGS
_ALLOWED = {
    "c++": (_LEVEL, _STANDARD, _DEFINE),
    "hip": (_LEVEL, _STANDARD, _DEFINE),
    "cuda": (_LEVEL, _STANDARD, _DEFINE, *_NVCC_FLAGS),
    "nvrtc": (_STANDARD, _DEFINE, "--use_fast_math", "-maxrregcount=N"),
}


class BuildRefused(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """The submission requests something that is not allowed; the text is for people."""


@dataclass(frozen=True)
class Directives:
    """What a native submission says about its own build."""

    language: str
    flags: tuple[str, ...] = ()
    launch: str = ""


@dataclass(frozen=True)
class BuildPaths:
    """Paths inside the box that builds: the source, the result, the tools.

    `architecture` is a GPU's, such as sm_90a or gfx942, unused for a processor; `includes` are
    folders of header-only libraries; `nvrtc` is the path of libnvrtc.
    """

    source: str
    output: str
    architecture: str = ""
    includes: tuple[str, ...] = ()
    nvrtc: str = ""


@dataclass(frozen=True)
class BuildOrder:
    """What a builder does in its box: runs `arguments`, or calls the library `nvrtc` instead."""

    arguments: tuple[str, ...]
    source: str
    output: str
    nvrtc: str = ""
    bytes_max: int = BUILT_BYTES_MAX
    environment: Mapping[str, str] = field(default_factory=dict)


def detect_language(name: str) -> str | None:
    """Return the native language of a file, by its suffix; None for Python."""
    return LANGUAGES.get(PurePath(name).suffix)


def compiles_at_import(source: bytes) -> bool:
    """Return whether a Python submission probably starts a C++ compiler at import.

    That needs a builder's limits. It is only a hint: a submission that hides it gets a worker's
    limits.
    """
    if _CPP_EXTENSION.encode() not in source:
        return False
    # The word in a comment or a string does not justify a builder's memory.
    try:
        tokens = tokenize.tokenize(io.BytesIO(source).readline)
        return any(part.type == token.NAME and part.string == _CPP_EXTENSION for part in tokens)
    except (SyntaxError, tokenize.TokenError):
        return False


def parse_directives(source: bytes, language: str) -> Directives:
    """Parse the leading comment lines. Raises BuildRefused with one sentence."""
    values: dict[str, str] = {}
    for line in _leading_comments(source):
        match = _DIRECTIVE.match(line)
        if not match:
            continue
        topic, value = match[1].lower(), match[2].strip()
        if topic not in _TOPICS or topic in values:
            problem = "repeated" if topic in values else "unknown"
            raise BuildRefused(f"{problem} directive {topic!r}: there are {', '.join(_TOPICS)}")
        values[topic] = value
    if (compiler := values.get("compiler")) is not None:
        if compiler.lower() != "nvrtc" or language != "cuda":
            request = f"the compiler {compiler!r} cannot be requested"
            raise BuildRefused(f"{request}: a .cu file may request nvrtc")
        language = "nvrtc"
    if ("launch" in values) != (language == "nvrtc"):
        reason = "use 'launch: grid=…, block=…' together with 'compiler: nvrtc', not alone"
        raise BuildRefused(reason)
    flags = tuple(values.get("flags", "").split())
    _require_allowed(flags, language)
    return Directives(language, flags, values.get("launch", ""))


def make_build_order(directives: Directives, paths: BuildPaths) -> BuildOrder:
    """Return the platform's command line with the flags that the submission may add."""
    includes = [f"-I{folder}" for folder in paths.includes]
    if directives.language == "nvrtc":
        options = (f"--gpu-architecture={paths.architecture}", *includes, *directives.flags)
        return BuildOrder(options, paths.source, paths.output, paths.nvrtc)
    flags, libraries = split_libraries(directives.flags)
    arguments = (
        *compiler_arguments(directives.language, paths.architecture),
        *flags,
        *includes,
        *(paths.source, "-o", paths.output),
        *libraries,
    )
    return BuildOrder(arguments, paths.source, paths.output)


def split_libraries(flags: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the flags that come before the sources, and the libraries, which come after them.

    A linker drops a library that comes before what uses it.

    >>> split_libraries(["-lcublas", "-O2"])
    (['-O2'], ['-lcublas'])
    """
    libraries = [flag for flag in flags if flag.startswith("-l")]
    return [flag for flag in flags if flag not in libraries], libraries


def is_for_nvcc(flag: str) -> bool:
    """Return whether only nvcc knows a flag.

    >>> is_for_nvcc("--use_fast_math"), is_for_nvcc("-O2")
    (True, False)
    """
    return any(_FLAGS[name].fullmatch(flag) for name in _NVCC_FLAGS)


def compiler_arguments(language: str, architecture: str) -> tuple[str, ...]:
    """Return how a compiler is called for a shared object, without source and result."""
    shared = ("-O3", "-std=c++20", "-shared")
    if language == "c++":
        return ("g++", *shared, "-march=native", "-fPIC", "-pipe")
    if language == "hip":
        return ("hipcc", *shared, "-fPIC", f"--offload-arch={architecture}")
    virtual = architecture.replace("sm_", "compute_")
    # The PTX is made in any case; with it, a profile can show it.
    target = f"arch={virtual},code=[{virtual},{architecture}]"
    return ("nvcc", *shared, "-Xcompiler", "-fPIC", "-gencode", target)


def _leading_comments(source: bytes) -> list[str]:
    lines = []
    for line in source.splitlines()[:_LEADING_LINES_MAX]:
        text = line.decode(errors="replace").strip()
        if text and not text.startswith("//"):
            break
        lines.append(text)
    return lines


def _require_allowed(flags: tuple[str, ...], language: str) -> None:
    if len(flags) > _FLAGS_MAX:
        raise BuildRefused(f"{len(flags)} flags are requested, at most {_FLAGS_MAX} are allowed")
    names = _ALLOWED[language]
    for flag in flags:
        if len(flag) > _FLAG_CHARS_MAX or not any(_FLAGS[name].fullmatch(flag) for name in names):
            refusal = f"the flag {flag[:_FLAG_CHARS_MAX]!r} is not allowed"
            raise BuildRefused(f"{refusal}: allowed are {', '.join(names)}")
