"""Evolution of kernels: children that take functions and constants of two parents, and change some.

Sources are read and written as text; nothing here runs them.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from shared.errors import Refused
from shared.problems.submission_file import PLAIN, suffix
from warpboard.domain.tuning import (
    Rng,
    find_constants,
    read_template,
    set_constants,
)

# How often a child of two parents takes a function, where it could also take constants.
_FUNCTION_SHARE = 0.5
# How often a mutation changes a constant that the header does not declare.
_UNDECLARED_SHARE = 0.2
_WHOLE_NUMBER = re.compile(r"[1-9][0-9]{0,8}")
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Parent:
    """A kernel with offspring: the name of its file, and its source."""

    name: str
    text: str


def cross(first: Parent, second: Parent, rng: Rng) -> str | None:
    """Return the first parent with a function or some constants of the second; None if it cannot.

    Constants are those that both set. A function comes with what it uses and the first parent
    lacks: other functions, constants and imports. Only Python has functions to take.
    """
    ways = [_take_function, _take_constants]
    if rng.random() >= _FUNCTION_SHARE:
        ways.reverse()
    for way in ways:
        child = way(first, second, rng)
        if child is not None and child != first.text:
            return child
    return None


def mutate(parent: Parent, rng: Rng) -> str | None:
    """Return a kernel with another value of one constant; None if it has none to change.

    Of those that its header declares, the value is one of the declared ones. Other whole numbers
    are doubled or halved: sizes and depths are, while a changed tolerance is only wrong.
    """
    declared = list(_declared_changes(parent))
    undeclared = list(_undeclared_changes(parent))
    if not declared and not undeclared:
        return None
    is_declared = bool(declared) and (not undeclared or rng.random() >= _UNDECLARED_SHARE)
    return set_constants(
        parent.name, parent.text, rng.choice(declared if is_declared else undeclared)
    )


def _declared_changes(parent: Parent) -> Iterator[dict[str, str]]:
    for name, values in _declared(parent).items():
        current = find_constants(parent.name, parent.text)[name].value
        yield from ({name: value} for value in values if value != current)


def _undeclared_changes(parent: Parent) -> Iterator[dict[str, str]]:
    declared = _declared(parent)
    for name, constant in find_constants(parent.name, parent.text).items():
        if name not in declared and _WHOLE_NUMBER.fullmatch(constant.value):
            value = int(constant.value)
            yield {name: str(2 * value)}
            if value % 2 == 0:
                yield {name: str(value // 2)}


def _declared(parent: Parent) -> Mapping[str, Sequence[str]]:
    """Return the declared constants with their values; none of a header that is wrong."""
    try:
        template = read_template(parent.name, parent.text)
    except Refused:
        return {}
    return {tunable.name: tunable.values for tunable in template.tunables}


def _take_constants(first: Parent, second: Parent, rng: Rng) -> str | None:
    own = find_constants(first.name, first.text)
    other = find_constants(second.name, second.text)
    differing = [name for name in own if name in other and own[name].value != other[name].value]
    if not differing:
        return None
    count = 1 + int(rng.random() * len(differing))
    names = rng.sample(differing, min(count, len(differing)))
    return set_constants(first.name, first.text, {name: other[name].value for name in names})


def _take_function(first: Parent, second: Parent, rng: Rng) -> str | None:
    if {suffix(first.name), suffix(second.name)} != {PLAIN}:
        return None
    own, other = _parse(first.text), _parse(second.text)
    if own is None or other is None:
        return None
    # To take the only function that both have would mean to take the whole kernel, unless it calls
    # functions that both have.
    shared = [name for name in own.functions if name in other.functions]
    candidates = [
        name
        for name in shared
        if own.dump(name) != other.dump(name) and (len(shared) > 1 or len(own.functions) > 1)
    ]
    if not candidates:
        return None
    name = rng.choice(candidates)
    return own.replace(name, other)


class _Module:
    """A Python module as its top-level statements, each with its text."""

    def __init__(self, text: str, body: Sequence[ast.stmt]) -> None:
        self._lines = text.splitlines(keepends=True)
        self._body = body
        self.functions: dict[str, _Definition] = {
            node.name: node for node in body if isinstance(node, _Definition)
        }
        self._names = {name: node for node in body for name in _bound_names(node)}

    def dump(self, name: str) -> str:
        """Return what a function is, without its comments and layout."""
        return ast.dump(self.functions[name])

    def replace(self, name: str, donor: "_Module") -> str:
        """Return this module with a function of the donor, and with what that function needs."""
        node = donor.functions[name]
        needed = [
            other
            for other in donor.needs(node)
            if not set(_bound_names(other)) & self._names.keys()
        ]
        added = "".join(f"{donor.text_of(other)}\n" for other in needed)
        start, end = _span(self.functions[name])
        before, after = self._lines[:start], self._lines[end:]
        return "".join(before) + added + donor.text_of(node) + "".join(after)

    def needs(self, node: ast.stmt) -> list[ast.stmt]:
        """Return the other top-level statements that one depends on, in their order."""
        needed: list[ast.stmt] = [node]
        for statement in needed:
            names = {name.id for name in ast.walk(statement) if isinstance(name, ast.Name)}
            needed += [
                self._names[name]
                for name in sorted(names & self._names.keys())
                if self._names[name] not in needed
            ]
        return [statement for statement in self._body if statement in needed[1:]]

    def text_of(self, node: ast.stmt) -> str:
        """Return the lines of a statement, with its decorators."""
        start, end = _span(node)
        text = "".join(self._lines[start:end])
        return text if text.endswith("\n") else f"{text}\n"


def _parse(text: str) -> _Module | None:
    # Lines that only splitlines ends would shift all others.
    if re.search("[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]", text):
        return None
    try:
        return _Module(text, ast.parse(text).body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _span(node: ast.stmt) -> tuple[int, int]:
    """Return the first line of a statement, from 0, and the one behind it."""
    decorators = node.decorator_list if isinstance(node, _Definition) else []
    first = min([node.lineno, *(decorator.lineno for decorator in decorators)])
    return first - 1, node.end_lineno or node.lineno


def _bound_names(node: ast.stmt) -> list[str]:
    if isinstance(node, _Definition):
        return [node.name]
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign):
        targets = [node.target]
    return [
        name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)
    ]
