"""A start for authors: the files of a small problem that is whole, to be made another one."""

import re
from collections.abc import Mapping, Sequence
from string import Template

from shared.errors import Refused
from warpboard.domain.names import SLUG_LENGTH_MAX

SLUG = re.compile(rf"[a-z0-9][a-z0-9_-]{{0,{SLUG_LENGTH_MAX - 1}}}\Z")
# Where the pages are kept that become the files, each under its form and with an end of its own.
PAGES, END = "problem", ".txt"
_TASK = ("task.yml", "warpboard.yml", "statement.md")
FILES: Mapping[str, Sequence[str]] = {
    "python": (
        *_TASK,
        *("task.py", "reference.py", "template.py", "baselines/plain.py"),
        *("solutions/correct/plain.py", "solutions/correct/in_place.py"),
        *("solutions/wrong/float16.py", "solutions/wrong/nan.py", "solutions/wrong/no_tail.py"),
    ),
    "cpp": (
        *_TASK,
        *("task.h", "reference.cuh", "template.cu"),
        *("solutions/correct/plain.cpp", "solutions/correct/by_tanh.cpp"),
        *("solutions/wrong/nan.cpp", "solutions/wrong/no_tail.cpp", "solutions/wrong/rounded.cpp"),
    ),
    "single": (
        *("reference.py", "warpboard.yml", "statement.md"),
        *("solutions/correct/plain.py", "solutions/correct/in_place.py"),
        *("solutions/wrong/float16.py", "solutions/wrong/nan.py"),
    ),
}


def checked_slug(name: str) -> str:
    """A folder's name, which is to be the problem's. Errors: Refused, with one that would do.

    >>> checked_slug("fast-silu")
    'fast-silu'
    """
    if SLUG.match(name):
        return name
    words = re.findall(r"[a-z0-9_]+", name.lower())
    near = "-".join(words).lstrip("_-")[:SLUG_LENGTH_MAX]
    mend = f": {near} would do" if near else ""
    what = f"{name!r} names no problem: a-z 0-9 _ -, at most {SLUG_LENGTH_MAX}{mend}"
    raise Refused("bad_problem", what, "NAME")


def page(form: str, file: str) -> str:
    """Which page a file is made of.

    >>> page("single", "reference.py")
    'problem/single/reference.py.txt'
    """
    return f"{PAGES}/{form}/{file}{END}"


def filled(text: str, slug: str) -> bytes:
    """A page as the file of a problem of this name."""
    title = slug.replace("-", " ").replace("_", " ").strip().capitalize()
    return Template(text).substitute(title=title or slug).encode()
