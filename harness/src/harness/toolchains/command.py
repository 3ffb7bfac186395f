"""How a native submission is built: one fixed command line for each language.

A submission may ask for more in its leading comment lines, from an allow-list alone:

    //!WARPBOARD flags: -O2 -std=c++17 -DTILE=64
    //!WARPBOARD compiler: nvrtc
    //!WARPBOARD launch: grid=(outputs[0].numel() + 255) // 256, block=256
"""

import io
import re
import token
import tokenize
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePath
from typing import Any

HEADER = Path(__file__).parent / "warpboard.h"
# A submission to a problem in C++ is compiled behind this one.
DRIVER = HEADER.parent / "native" / "wb_submission.cpp"
LANGUAGES = {".cpp": "c++", ".cu": "cuda", ".hip": "hip"}

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
_DEFINE = re.compile(r"-D[A-Za-z_]\w*(=[\w.+-]*)?|-U[A-Za-z_]\w*", re.ASCII)
_STANDARD = re.compile(r"-?-std=(c|gnu)\+\+(11|14|17|20|23|2a|2b)")
_LEVEL = re.compile(r"-O([0-3gsz]|fast)?")
_FAST = re.compile(r"--?use_fast_math")
_REGISTERS = re.compile(r"--?maxrregcount=\d{1,3}")
_ALLOWED = {
    "c++": (_LEVEL, _STANDARD, _DEFINE),
    "hip": (_LEVEL, _STANDARD, _DEFINE),
    "cuda": (_LEVEL, _STANDARD, _DEFINE, _FAST, _REGISTERS),
    "nvrtc": (_STANDARD, _DEFINE, _FAST, _REGISTERS),
}
_NAMES = {
    _LEVEL: "-O*",
    _STANDARD: "-std=*",
    _DEFINE: "-DNAME[=VALUE], -UNAME",
    _FAST: "--use_fast_math",
    _REGISTERS: "-maxrregcount=N",
}


class BuildRefused(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """The submission asks for what it may not have here; the text is for people."""


@dataclass(frozen=True)
class Directives:
    """What a native submission says of its own building."""

    language: str
    flags: tuple[str, ...] = ()
    launch: str = ""


@dataclass(frozen=True)
class Bench:
    """Where things are inside the box that builds: the source, the result, the tools.

    `architecture` is a GPU's, such as sm_90a or gfx942, unused for a processor; `includes` are
    folders of header-only libraries; `nvrtc` is the path of libnvrtc.
    """

    source: str
    output: str
    architecture: str = ""
    includes: tuple[str, ...] = ()
    nvrtc: str = ""


@dataclass(frozen=True)
class Order:
    """What a builder does in its box: runs `arguments`, or asks the library `nvrtc` instead."""

    arguments: tuple[str, ...]
    source: str
    output: str
    nvrtc: str = ""
    bytes_max: int = BUILT_BYTES_MAX
    environment: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As plain values, the body of the message BUILD."""
        return asdict(self) | {"environment": dict(self.environment)}


def language_of(name: str) -> str | None:
    """The native language of a file, by its suffix; None for Python.

    >>> language_of("submission.cu"), language_of("submission.py")
    ('cuda', None)
    """
    return LANGUAGES.get(PurePath(name).suffix)


def compiles_at_import(source: bytes) -> bool:
    """Whether a Python submission may well start a C++ compiler, which takes a builder's limits.

    A hint and nothing more: who hides it meets the limits of a worker.
    """
    if _CPP_EXTENSION.encode() not in source:
        return False
    # A comment or a text with the word is not worth a builder's memory.
    try:
        tokens = tokenize.tokenize(io.BytesIO(source).readline)
        return any(one.type == token.NAME and one.string == _CPP_EXTENSION for one in tokens)
    except (SyntaxError, tokenize.TokenError):
        return False


def directives(source: bytes, language: str) -> Directives:
    """What the leading comment lines ask for. Errors: BuildRefused, with one sentence."""
    said: dict[str, str] = {}
    for line in _leading(source):
        found = _DIRECTIVE.match(line)
        if not found:
            continue
        topic, value = found[1].lower(), found[2].strip()
        if topic not in _TOPICS or topic in said:
            what = "repeated" if topic in said else "unknown"
            raise BuildRefused(f"{what} directive {topic!r}: there are {', '.join(_TOPICS)}")
        said[topic] = value
    language = _compiler(said.get("compiler"), language)
    if ("launch" in said) != (language == "nvrtc"):
        raise BuildRefused("'launch: grid=…, block=…' goes with 'compiler: nvrtc', and only so")
    flags = tuple(said.get("flags", "").split())
    _require_allowed(flags, language)
    return Directives(language, flags, said.get("launch", ""))


def order(asked: Directives, bench: Bench) -> Order:
    """The platform's own command line, with the flags that the submission may add."""
    if asked.language == "nvrtc":
        options = (f"--gpu-architecture={bench.architecture}", *_includes(bench), *asked.flags)
        return Order(options, bench.source, bench.output, bench.nvrtc)
    arguments = (*fixed(asked.language, bench.architecture), *asked.flags, *_includes(bench))
    return Order((*arguments, bench.source, "-o", bench.output), bench.source, bench.output)


def is_for_nvcc(flag: str) -> bool:
    """Whether a flag is one that no other compiler knows.

    >>> is_for_nvcc("--use_fast_math"), is_for_nvcc("-O2")
    (True, False)
    """
    return any(one.fullmatch(flag) for one in (_FAST, _REGISTERS))


def fixed(language: str, architecture: str) -> tuple[str, ...]:
    """How a compiler is called for a shared object, but for the source and the result."""
    shared = ("-O3", "-std=c++20", "-shared")
    if language == "c++":
        return ("g++", *shared, "-march=native", "-fPIC", "-pipe")
    if language == "hip":
        return ("hipcc", *shared, "-fPIC", f"--offload-arch={architecture}")
    virtual = architecture.replace("sm_", "compute_")
    target = f"arch={virtual},code={architecture}"
    return ("nvcc", *shared, "-Xcompiler", "-fPIC", "-gencode", target)


def _includes(bench: Bench) -> tuple[str, ...]:
    return tuple(f"-I{folder}" for folder in bench.includes)


def _leading(source: bytes) -> list[str]:
    """The comment lines that a source begins with."""
    found = []
    for line in source.splitlines()[:_LEADING_LINES_MAX]:
        text = line.decode(errors="replace").strip()
        if text and not text.startswith("//"):
            break
        found.append(text)
    return found


def _compiler(name: str | None, language: str) -> str:
    if name is None:
        return language
    if name.lower() != "nvrtc" or language != "cuda":
        raise BuildRefused(
            f"the compiler {name!r} cannot be asked for: a .cu file may ask for nvrtc"
        )
    return "nvrtc"


def _require_allowed(flags: tuple[str, ...], language: str) -> None:
    allowed = _ALLOWED[language]
    if len(flags) > _FLAGS_MAX:
        raise BuildRefused(f"{len(flags)} flags are asked for, at most {_FLAGS_MAX} may be")
    for flag in flags:
        if len(flag) > _FLAG_CHARS_MAX or not any(one.fullmatch(flag) for one in allowed):
            names = ", ".join(_NAMES[one] for one in allowed)
            shown = flag[:_FLAG_CHARS_MAX]
            raise BuildRefused(f"the flag {shown!r} may not be asked for: allowed are {names}")
