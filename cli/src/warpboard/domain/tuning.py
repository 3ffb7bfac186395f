"""Templates: constants of a kernel that an optimiser sets, in Python and in C++."""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Protocol, TypeVar

from shared.errors import Refused
from shared.problems.submission_file import PLAIN, Tunable, read_tunables, suffix

T = TypeVar("T")
# `#define NAME 16` and `constexpr int NAME = 16;` at the beginning of a line.
_NATIVE = re.compile(
    r"^(?:[ \t]*#[ \t]*define[ \t]+(?P<macro>\w+)[ \t]+(?P<text>[^\s/]+)[ \t]*(?:/[/*].*)?$"
    r"|(?:static[ \t]+)?(?:inline[ \t]+)?(?:constexpr|const)[ \t]+[\w:]+[ \t]+(?P<name>\w+)"
    r"[ \t]*=[ \t]*(?P<value>[^;\s]+)[ \t]*;)",
    re.MULTILINE,
)


class Rng(Protocol):
    """What the core uses of a random generator."""

    def random(self) -> float:
        """Return a number from 0 to 1."""

    def choice(self, seq: Sequence[T], /) -> T:
        """Return one of several."""

    def sample(self, population: Sequence[T], /, k: int) -> list[T]:
        """Return `k` different ones of several."""


@dataclass(frozen=True)
class Constant:
    """A constant at the top level of a file: its value as written, and where that is, in bytes."""

    name: str
    value: str
    start: int
    end: int


def find_constants(name: str, text: str) -> dict[str, Constant]:
    """Return the constants of a file that are set once; of one that does not parse, none.

    >>> list(find_constants("k.py", "A = 16\\nB = f()\\nA2: int = -1\\n"))
    ['A', 'A2']
    >>> find_constants("k.cu", "#define A 16\\nconstexpr int B = 32;\\n")["B"].value
    '32'
    """
    constants = list(_python_constants(text) if suffix(name) == PLAIN else _native_constants(text))
    names = [constant.name for constant in constants]
    return {constant.name: constant for constant in constants if names.count(constant.name) == 1}


def _python_constants(text: str) -> Iterator[Constant]:
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    data = text.encode()
    # Not splitlines: Python ends a line at fewer characters.
    starts = [0, *(match.end() for match in re.finditer(rb"\r\n|\r|\n", data))]
    for node in body:
        target, value = _assignment(node)
        if isinstance(target, ast.Name) and value is not None and _is_literal(value):
            start = starts[value.lineno - 1] + value.col_offset
            end = starts[(value.end_lineno or 0) - 1] + (value.end_col_offset or 0)
            yield Constant(target.id, data[start:end].decode(), start, end)


def _assignment(node: ast.stmt) -> tuple[ast.expr | None, ast.expr | None]:
    """Return what a statement sets, and to what, if it sets one thing."""
    if isinstance(node, ast.AnnAssign):
        return node.target, node.value
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        return node.targets[0], node.value
    return None, None


def _is_literal(value: ast.expr) -> bool:
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub):
        value = value.operand
    return isinstance(value, ast.Constant)


def _native_constants(text: str) -> Iterator[Constant]:
    for match in _NATIVE.finditer(text):
        group = "text" if match["macro"] else "value"
        start = len(text[: match.start(group)].encode())
        value = match[group]
        yield Constant(match["macro"] or match["name"], value, start, start + len(value.encode()))


def set_constants(name: str, text: str, values: Mapping[str, str]) -> str:
    """Return a file with these constants set; those that it lacks are left out.

    >>> set_constants("k.py", "A = 16  # rows\\nB = 1\\n", {"A": "32", "C": "2"})
    'A = 32  # rows\\nB = 1\\n'
    """
    data = text.encode()
    constants = find_constants(name, text)
    places = [constants[key] for key in values if key in constants]
    for place in sorted(places, key=lambda place: place.start, reverse=True):
        data = data[: place.start] + values[place.name].encode() + data[place.end :]
    return data.decode()


@dataclass(frozen=True)
class Template:
    """A kernel whose header declares constants to tune, with the values that it has now."""

    name: str
    text: str
    tunables: tuple[Tunable, ...]
    values: Mapping[str, str]

    @property
    def size(self) -> int:
        """How many different settings there are."""
        return prod(len(tunable.values) for tunable in self.tunables)

    def settings(self) -> Iterator[dict[str, str]]:
        """Yield every setting."""
        names = [tunable.name for tunable in self.tunables]
        for values in product(*(tunable.values for tunable in self.tunables)):
            yield dict(zip(names, values, strict=True))

    def fill(self, values: Mapping[str, str]) -> str:
        """Return the kernel with these values."""
        return set_constants(self.name, self.text, values)


def read_template(name: str, text: str) -> Template:
    """Return a kernel with what it declares; without any declaration, `tunables` is empty.

    Raises Refused if a declared constant is not set in the file, or to another value.
    """
    tunables = read_tunables(text)
    constants = find_constants(name, text)
    for tunable in tunables:
        constant = constants.get(tunable.name)
        if constant is None:
            form = f"{tunable.name} = {tunable.values[0]}"
            if suffix(name) != PLAIN:
                form = f"#define {tunable.name} {tunable.values[0]}"
            raise _bad_tunable(name, tunable, f"write `{form}` once, at the top level of the file")
        if constant.value not in tunable.values:
            reason = f"its value {constant.value} is not among those declared: add it"
            raise _bad_tunable(name, tunable, reason)
    values = {tunable.name: constants[tunable.name].value for tunable in tunables}
    return Template(name, text, tunables, values)


def _bad_tunable(name: str, tunable: Tunable, reason: str) -> Refused:
    return Refused("bad_template", f"{name}, tune {tunable.name}: {reason}", "START")


def neighbours(template: Template, values: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Yield the settings that differ in one constant: first by one step, then by more.

    >>> template = read_template("k.py", "#!WARPBOARD tune A 1 2 4\\nA = 1\\n")
    >>> list(neighbours(template, {"A": "1"}))
    [{'A': '2'}, {'A': '4'}]
    """
    steps = []
    for tunable in template.tunables:
        here = tunable.values.index(values[tunable.name])
        for place, value in enumerate(tunable.values):
            if place != here:
                steps.append((abs(place - here), dict(values) | {tunable.name: value}))
    yield from (setting for _, setting in sorted(steps, key=lambda step: step[0]))
