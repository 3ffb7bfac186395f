"""What a submission's file says: its language, what it needs, and its `#!POPCORN` lines."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from typing import Literal

from harness.gpus import is_amd
from harness.vocabulary import COMPILERS
from shared.errors import Refused

Language = Literal["python", "cpp", "cuda", "hip"]
SUFFIXES: Mapping[str, str] = {"python": ".py", "cpp": ".cpp", "cuda": ".cu", "hip": ".hip"}
MEDIA: Mapping[str, str] = {
    ".py": "text/x-python",
    ".cpp": "text/x-c++",
    ".cu": "text/x-cuda",
    ".hip": "text/x-hip",
}
PLAIN = ".py"
LEADING_LINES_MAX = 64

# The languages that need a GPU, unless the whole problem is written in C++.
GPU_LANGUAGES = ("cuda", "hip")
_NVRTC = re.compile(r"//!\s*WARPBOARD\s+compiler\s*:\s*nvrtc\s*\Z", re.IGNORECASE)

# The toolchains by the module that a Python file imports, and by the headers of a native file.
# Every agent has torch.
_MODULES: Mapping[str, str] = {
    "cupy": "cupy",
    "cutlass": "cute_dsl",
    "jax": "jax",
    "numba": "numba",
    "numpy": "numpy",
    "triton": "triton",
}
_HEADERS: Mapping[str, re.Pattern[str]] = {
    "cublas": re.compile(r"cublas"),
    "cutlass": re.compile(r"(?:cutlass|cute)/"),
    "thunderkittens": re.compile(r"kittens\.cuh"),
}
# The names of what a file may need beside its compiler.
TOOLCHAINS: Sequence[str] = (*(_MODULES[name] for name in _MODULES), *_HEADERS)

# Strings and comments, which are no code. What ends a loop also ends the match, so any text takes
# linear time. Groups are not possessive, which Python before 3.11.5 gets wrong.
_PYTHON_TEXT = re.compile(
    r"""
    "{3} [^"\\]*+ (?: (?: \\.? | "(?!"") ) [^"\\]*+ )* (?: "{3} | \Z )
    | '{3} [^'\\]*+ (?: (?: \\.? | '(?!'') ) [^'\\]*+ )* (?: '{3} | \Z )
    | " [^"\\\n]*+ (?: \\. [^"\\\n]*+ )* "?
    | ' [^'\\\n]*+ (?: \\. [^'\\\n]*+ )* '?
    | \#[^\n]*+
    """,
    re.VERBOSE | re.DOTALL,
)
_C_COMMENT = re.compile(r"//[^\n]*+|/\*[^*]*+(?:\*(?!/)[^*]*+)*(?:\*/|\Z)")
# What begins a block that may not run.
_BRANCH = re.compile(r"(?:try|except|if|elif|else|match|case|with)\b")
_IMPORT = re.compile(
    r"import[ \t]+(?P<names>[\w., \t]+)|from[ \t]+(?P<package>[\w.]+)[ \t]+import\b"
)
_CUDA_SOURCES = re.compile(r"\bcuda_sources[ \t]*=|\bCUDAExtension\b")
_INCLUDE = re.compile(
    r"#[ \t]*(?P<word>include|if|ifdef|ifndef|endif)\b[ \t]*[<\"]?(?P<header>[\w./]*)"
)


def suffix(name: str) -> str:
    """Return the suffix that names a submission's language; `.py` for any other.

    >>> suffix("kernel.cu"), suffix("kernel.py"), suffix("kernel")
    ('.cu', '.py', '.py')
    """
    return next((known for known in SUFFIXES.values() if name.endswith(known)), PLAIN)


def suffixes(languages: Iterable[str]) -> tuple[str, ...]:
    """Return the suffixes that a problem's languages allow; an empty list means Python only.

    >>> suffixes(["python", "cuda"]), suffixes([])
    (('.py', '.cu'), ('.py',))
    """
    return tuple(SUFFIXES[name] for name in languages if name in SUFFIXES) or (PLAIN,)


def language_of(name: str) -> str:
    """Return the language of a file by its suffix.

    >>> language_of("kernel.cu"), language_of("kernel")
    ('cuda', 'python')
    """
    return next(language for language, end in SUFFIXES.items() if end == suffix(name))


def toolchains(name: str, text: str, gpu: str = "") -> list[str]:
    """Return the toolchains an agent of a GPU type needs for a file.

    These are its compiler, and the packages and libraries that it imports or includes. An import
    within `try`, `if` or `with` may be optional and does not count, nor does an include within #if.

    >>> toolchains("kernel.cpp", ""), toolchains("kernel.py", "import torch, triton")
    (['g++'], ['triton'])
    >>> toolchains("kernel.cu", "//!WARPBOARD compiler: nvrtc"), toolchains("kernel.cu", "")
    (['nvrtc'], ['nvcc'])
    """
    compiler = COMPILERS.get(language_of(name))
    if compiler is None:
        return list(_python_toolchains(text, "hipcc" if is_amd(gpu) else "nvcc"))
    # The harness reads directives in the comment at the start only.
    lines = (line.strip() for line in text.splitlines()[:LEADING_LINES_MAX])
    comment = takewhile(lambda line: not line or line.startswith("//"), lines)
    if compiler == "nvcc" and any(_NVRTC.match(line) for line in comment):
        compiler = "nvrtc"
    return [compiler, *libraries(text)]


def libraries(text: str) -> list[str]:
    """Return the libraries whose headers a C++ file includes.

    >>> libraries("#include <cublas_v2.h>")
    ['cublas']
    """
    headers = list(_included_headers(text))
    return [tool for tool, pattern in _HEADERS.items() if any(map(pattern.match, headers))]


# One submission to several GPU types is read once.
@lru_cache(2)
def _python_toolchains(text: str, cuda_compiler: str) -> tuple[str, ...]:
    code = _PYTHON_TEXT.sub(lambda match: "" if match[0].startswith("#") else "''", text)
    names: dict[str, None] = {}
    for statement in _certain_statements(code):
        match = _IMPORT.match(statement)
        if match is None:
            continue
        modules = [match["package"]] if match["package"] else match["names"].split(",")
        roots = [module.strip().partition(".")[0].partition(" ")[0] for module in modules]
        names |= dict.fromkeys(_MODULES[root] for root in roots if root in _MODULES)
        if "cpp_extension" in statement:
            names |= dict.fromkeys(("g++", "ninja"))
            if _CUDA_SOURCES.search(code):
                names[cuda_compiler] = None
    return tuple(names)


def _certain_statements(code: str) -> Iterator[str]:
    """Yield the statements outside of branches; a line that continues another is a statement."""
    branches: list[int] = []
    for line in code.splitlines():
        statement = line.lstrip()
        indent = len(line) - len(statement)
        while statement and branches and indent <= branches[-1]:
            branches.pop()
        if _BRANCH.match(statement):
            branches.append(indent)
        elif not branches:
            yield from (part.strip() for part in statement.split(";"))


def _included_headers(text: str) -> Iterator[str]:
    """Yield the headers that a C++ file includes outside of #if."""
    depth = 0
    for line in _C_COMMENT.sub(" ", text).splitlines():
        match = _INCLUDE.match(line.strip())
        if match is None:
            continue
        if match["word"] == "include":
            if not depth:
                yield match["header"]
        else:
            depth += -1 if match["word"] == "endif" else 1


MARKS = ("#!POPCORN", "//!POPCORN")
DIRECTIVES = ("leaderboard", "gpus", "precision", "parent")
# The largest number of a submission: a sequence of the log.
NUMBER_MAX = 2**63 - 1
_NUMBER = re.compile(r"#?(?P<number>[1-9][0-9]{0,18})", re.ASCII)

# The lines that declare constants to tune; agents ignore them.
TUNE_MARKS, TUNE = ("#!WARPBOARD", "//!WARPBOARD"), "tune"
TUNE_VALUES_MAX = 64
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,79}")
_LITERAL = re.compile(
    r"""[+-]?[0-9][0-9A-Za-z_.+-]{0,39} | true | false | True | False
    | "[^"\\]{0,80}" | '[^'\\]{0,80}'""",
    re.VERBOSE,
)

# The half width of the 95 % interval at which a benchmark may end, as a fraction.
PRECISION_MIN, PRECISION_MAX = 0.005, 0.2
_PRECISION = re.compile(r"(?P<number>[0-9]{0,3}(?:\.[0-9]{1,6})?)\s*(?P<percent>%?)", re.ASCII)


def parse_precision(text: str) -> float:
    """Return the precision of a benchmark, written as a percentage or as a fraction.

    Errors: Refused `invalid_request`, naming the field.

    >>> parse_precision("2%"), parse_precision("0.02"), parse_precision("0.5 %")
    (0.02, 0.02, 0.005)
    """
    match = _PRECISION.fullmatch(text.strip())
    if match is None or not match["number"]:
        raise _bad_precision(text)
    value = round(float(match["number"]) / (100 if match["percent"] else 1), 9)
    _check_precision(value, text)
    return value


def _check_precision(value: float, text: str) -> None:
    if not PRECISION_MIN <= value <= PRECISION_MAX:
        raise _bad_precision(text)


def _bad_precision(text: str) -> Refused:
    limits = f"{PRECISION_MIN:.1%} to {PRECISION_MAX:.0%}"
    message = f"precision is {text!r:.40}: write {limits} for a benchmark, such as 2% or 0.02"
    return Refused("invalid_request", message, "precision")


@dataclass(frozen=True)
class Directives:
    """What a file declares: its leaderboard, its GPU types, precision and parent.

    `precision` is 0 if the file names none, and so is `parent`, the number of a submission.
    """

    leaderboard: str | None = None
    gpus: tuple[str, ...] = ()
    precision: float = 0.0
    parent: int = 0


def choose_precision(requested: float, mode: str, directives: Directives) -> float:
    """Return the precision of a run, 0 for the mode's default; only a benchmark's may be chosen.

    The file's directive applies to its benchmarks, and is ignored in other modes.
    """
    if not requested:
        return directives.precision if mode == "benchmark" else 0.0
    if mode == "ranked":
        message = (
            "precision is fixed for ranked runs, so that all entries mean the same: leave it out, "
            "or use mode benchmark"
        )
        raise Refused("invalid_request", message, "precision")
    if mode != "benchmark":
        message = f"precision is only for mode benchmark, not for {mode}: leave it out"
        raise Refused("invalid_request", message, "precision")
    _check_precision(requested, f"{requested:g}")
    return requested


def read_directives(text: str) -> Directives:
    """Read the directives in the leading comment block.

    Errors: Refused `bad_directive`, naming the line.

    >>> read_directives("#!POPCORN leaderboard matmul\\n#!POPCORN gpus CPU H100\\nimport torch")
    Directives(leaderboard='matmul', gpus=('CPU', 'H100'), precision=0.0, parent=0)
    """
    values: dict[str, list[str]] = {}
    lines = text.splitlines()
    for number, line in enumerate(lines[: _count_leading_lines(lines)], 1):
        if mark := _find_mark(line):
            keyword, words = _parse_directive(line.strip()[len(mark) :].split(), number)
            if keyword in values:
                raise _bad_directive(number, f"a second {keyword!r}: write it once")
            values[keyword] = words
    leaderboard = values["leaderboard"][0] if "leaderboard" in values else None
    precision = parse_precision("".join(values["precision"])) if "precision" in values else 0.0
    parent = _parse_number(values["parent"][0]) if "parent" in values else 0
    return Directives(leaderboard, tuple(values.get("gpus", ())), precision, parent)


def late_directives(text: str) -> list[int]:
    """Return the lines of directives below the leading comment block, where they have no effect.

    >>> late_directives("import torch\\n#!POPCORN gpus H100\\n")
    [2]
    """
    lines = text.splitlines()
    first = _count_leading_lines(lines)
    return [number for number, line in enumerate(lines[first:], first + 1) if _find_mark(line)]


def _count_leading_lines(lines: Sequence[str]) -> int:
    for index, line in enumerate(lines):
        if line.strip() and not line.strip().startswith(("#", "//")):
            return index
    return len(lines)


def _find_mark(line: str, marks: Sequence[str] = MARKS) -> str:
    return next((mark for mark in marks if line.strip().upper().startswith(mark)), "")


@dataclass(frozen=True)
class Tunable:
    """A constant of a file, and the values from which an optimiser may choose, as written there."""

    name: str
    values: tuple[str, ...]


def read_tunables(text: str) -> tuple[Tunable, ...]:
    """Read the `#!WARPBOARD tune NAME VALUE VALUE...` lines of the leading comment block.

    Errors: Refused `bad_directive`, naming the line.

    >>> read_tunables("#!WARPBOARD tune BLOCK 16 32\\n#!POPCORN gpus CPU\\nBLOCK = 16\\n")
    (Tunable(name='BLOCK', values=('16', '32')),)
    """
    tunables: dict[str, Tunable] = {}
    lines = text.splitlines()
    for number, line in enumerate(lines[: _count_leading_lines(lines)], 1):
        words = line.strip()[len(_find_mark(line, TUNE_MARKS)) :].split()
        if not _find_mark(line, TUNE_MARKS) or not words or words[0].lower() != TUNE:
            continue
        tunable = _parse_tunable(words[1:], number)
        if tunable.name in tunables:
            raise _bad_directive(number, f"a second tune {tunable.name}: write it once")
        tunables[tunable.name] = tunable
    return tuple(tunables.values())


def _parse_tunable(words: list[str], number: int) -> Tunable:
    name, *values = words or [""]
    if not _NAME.fullmatch(name) or len(set(values)) != len(values) or len(values) < 2:
        reason = "tune takes a constant's name and two or more different values"
        raise _bad_directive(number, f"{reason}, such as tune BLOCK 16 32 64")
    if len(values) > TUNE_VALUES_MAX:
        reason = f"tune {name} has {len(values)} values: write at most {TUNE_VALUES_MAX}"
        raise _bad_directive(number, reason)
    for value in values:
        if not _LITERAL.fullmatch(value):
            reason = f"tune {name}: {value!r:.40} is no number, true or false, or word in quotes"
            raise _bad_directive(number, f"{reason}: write values as they stand in the code")
    return Tunable(name, tuple(values))


def _parse_directive(words: list[str], number: int) -> tuple[str, list[str]]:
    if not words:
        raise _bad_directive(
            number,
            "no keyword: write leaderboard NAME, gpus with one or more GPU types, precision 2%, or "
            "parent NUMBER",
        )
    keyword = words[0].lower()
    if keyword == "gpu":
        keyword = "gpus"
    if keyword not in DIRECTIVES:
        known = ", ".join(DIRECTIVES)
        raise _bad_directive(number, f"unknown directive {words[0]!r}: use one of {known}")
    if len(words) < 2 or (keyword == "leaderboard" and len(words) > 2):
        raise _bad_directive(number, "leaderboard takes one name, gpus one or more")
    if keyword == "parent" and (len(words) > 2 or not _parse_number(words[1])):
        raise _bad_directive(number, "parent takes the number of one submission, such as 1234")
    if keyword == "precision":
        _check_line(number, "".join(words[1:]))
    return keyword, words[1:]


def _parse_number(word: str) -> int:
    """Return the number of a submission, 0 if the word is none."""
    match = _NUMBER.fullmatch(word)
    number = int(match["number"]) if match else 0
    return number if number <= NUMBER_MAX else 0


def _check_line(number: int, precision: str) -> None:
    """Refuse a precision that cannot be read, naming its line."""
    try:
        parse_precision(precision)
    except Refused as refused:
        raise _bad_directive(number, refused.reason) from refused


def _bad_directive(number: int, what: str) -> Refused:
    return Refused("bad_directive", f"line {number}: {what}", "file")
