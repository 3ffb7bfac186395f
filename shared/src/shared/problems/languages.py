"""The languages of submissions, by the ends of their files' names, and what compiles them."""

import re
from collections.abc import Iterable, Iterator, Mapping

SUFFIXES: Mapping[str, str] = {"python": ".py", "cpp": ".cpp", "cuda": ".cu"}
MEDIA: Mapping[str, str] = {".py": "text/x-python", ".cpp": "text/x-c++", ".cu": "text/x-cuda"}
PLAIN = ".py"
LEADING_LINES_MAX = 64

_COMPILERS: Mapping[str, str] = {".cpp": "g++", ".cu": "nvcc"}
_NVRTC = re.compile(r"//!\s*WARPBOARD\s+compiler\s*:\s*nvrtc\s*\Z", re.IGNORECASE)


def suffix(name: str) -> str:
    """The end of a submitted file's name that says its language; `.py` for any other.

    >>> suffix("kernel.cu"), suffix("kernel.py"), suffix("kernel")
    ('.cu', '.py', '.py')
    """
    return next((end for end in SUFFIXES.values() if name.endswith(end)), PLAIN)


def suffixes(languages: Iterable[str]) -> tuple[str, ...]:
    """The ends that a problem's languages allow; a version that names none is of Python alone.

    >>> suffixes(["python", "cuda"]), suffixes([])
    (('.py', '.cu'), ('.py',))
    """
    return tuple(SUFFIXES[one] for one in languages if one in SUFFIXES) or (PLAIN,)


def toolchains(name: str, text: str) -> list[str]:
    """What must be on a machine, by its agent's name for it, to compile a file; [] for Python.

    >>> toolchains("kernel.cpp", ""), toolchains("kernel.py", "")
    (['g++'], [])
    >>> toolchains("kernel.cu", "//!WARPBOARD compiler: nvrtc"), toolchains("kernel.cu", "")
    (['nvrtc'], ['nvcc'])
    """
    compiler = _COMPILERS.get(suffix(name))
    if compiler is None:
        return []
    if compiler == "nvcc" and any(_NVRTC.match(line) for line in _leading(text)):
        return ["nvrtc"]
    return [compiler]


def _leading(text: str) -> Iterator[str]:
    """The comment lines that a text begins with, where alone the harness reads directives."""
    for line in text.splitlines()[:LEADING_LINES_MAX]:
        stripped = line.strip()
        if stripped and not stripped.startswith("//"):
            return
        yield stripped
