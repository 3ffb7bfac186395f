"""The languages of submissions, by the ends of their files' names."""

from collections.abc import Iterable, Mapping

SUFFIXES: Mapping[str, str] = {"python": ".py", "cpp": ".cpp", "cuda": ".cu"}
MEDIA: Mapping[str, str] = {".py": "text/x-python", ".cpp": "text/x-c++", ".cu": "text/x-cuda"}
PLAIN = ".py"


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
