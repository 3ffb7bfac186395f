"""The `task.py` of a problem whose author wrote none: the types of data and answer.

They are read from the annotations of the reference, which is parsed and never run. The file holds
only names from a fixed list, so no annotation can make it fail; whatever else it says is `Any`.
"""

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from shared.problems.reference_form import read_functions
from shared.problems.sources import REFERENCE_FUNCTIONS
from shared.problems.templates import parse_or_empty

_GENERATE, _ANSWER, _ = REFERENCE_FUNCTIONS
_MODULE = "task"
_ANY = "Any"
_DEPTH_MAX = 8
_PARTS_MAX = 64
_NAMES_MAX = 64
_NAME_CHARS_MAX = 60

_PLAIN = ("int", "float", "bool", "str", "bytes", "complex", "object")
_TENSORS = ("torch.Tensor", "torch.dtype", "torch.device", "torch.Size")
_TUPLE = "tuple"
_UNION = "Union"
# How many types each takes in brackets; 0 for one or more.
_GENERICS: Mapping[str, int] = {
    **dict.fromkeys(("list", "set", "frozenset", "Sequence", "Iterable", "Optional"), 1),
    **dict.fromkeys(("dict", "Mapping"), 2),
    **dict.fromkeys((_TUPLE, _UNION), 0),
}
_TYPING_NAMES = {"List": "list", "Set": "set", "FrozenSet": "frozenset", "Dict": "dict"}
_TYPING_NAMES |= {"Tuple": _TUPLE}
_TYPING_MODULES = ("typing", "collections.abc")
_IMPORTED = (_ANY, "Sequence", "Iterable", "Mapping", "Optional", _UNION)
_HEAD = '"""The types of data and answer, from the annotations of the reference."""\n'


def write_task_module(reference: bytes) -> bytes:
    """Return a `task.py` for a reference: `input_t`, `output_t`, and what else it imports from it.

    >>> reference = b"def ref_kernel(x: 'float') -> list[__import__('os')]: ..."
    >>> print(write_task_module(reference).decode())
    \"\"\"The types of data and answer, from the annotations of the reference.\"\"\"
    <BLANKLINE>
    from typing import Any
    <BLANKLINE>
    input_t = float
    output_t = list[Any]
    <BLANKLINE>
    """
    tree = parse_or_empty(reference)
    types = _read_types(tree)
    lines = [f"{name} = {text}" for name, text in types.items()]
    lines += [f"{name} = {_ANY}" for name in _other_names(tree, types)]
    code = "\n".join(lines)
    words = {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
    typing_names = sorted(words.intersection(_IMPORTED))
    imports = [f"from typing import {', '.join(typing_names)}\n"] if typing_names else []
    imports += ["import torch\n"] if "torch" in words else []
    return "\n".join([_HEAD, *imports, f"{code}\n"]).encode()


def _read_types(tree: ast.Module) -> dict[str, str]:
    functions = read_functions(tree)
    answer, generate = (functions.get(name) for name in (_ANSWER, _GENERATE))
    parameters = answer.positional[:1] if answer else []
    inputs = [
        *(parameter.annotation for parameter in parameters),
        generate.returns if generate else None,
    ]
    reader = _AnnotationReader(_Names.read(tree))
    return {
        "input_t": reader.first_known(inputs),
        "output_t": reader.first_known([answer.returns if answer else None]),
    }


def _other_names(tree: ast.Module, types: Mapping[str, str]) -> list[str]:
    """Return the other names that the reference imports from `task`."""
    names: dict[str, None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == _MODULE and not node.level:
            names |= dict.fromkeys(alias.name for alias in node.names)
    taken = {*types, *_PLAIN, *_GENERICS, *_IMPORTED, "torch", "*"}
    # Python lets nobody assign some of the names that begin with an underscore.
    fitting = [name for name in names if name not in taken and not name.startswith("_")]
    return [name for name in fitting if len(name) <= _NAME_CHARS_MAX][:_NAMES_MAX]


@dataclass
class _Names:
    """What the names of a file stand for: dotted names, and annotations that it gives a name."""

    dotted: dict[str, str] = field(default_factory=dict)
    aliases: dict[str, ast.expr] = field(default_factory=dict)
    others: set[str] = field(default_factory=set)

    @classmethod
    def read(cls, tree: ast.Module) -> "_Names":
        """Read the statements at the top level of a file."""
        names = cls()
        for node in tree.body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                names._add_imports(node)
            elif isinstance(node, ast.Assign):
                targets = [target.id for target in node.targets if isinstance(target, ast.Name)]
                names.aliases |= dict.fromkeys(targets, node.value)
            elif isinstance(node, ast.FunctionDef | ast.ClassDef):
                names.others.add(node.name)
        return names

    def _add_imports(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            if isinstance(node, ast.ImportFrom):
                self.dotted[alias.asname or alias.name] = f"{node.module}.{alias.name}"
            else:
                # `import a.b` gives the name `a`.
                name = alias.asname or alias.name.partition(".")[0]
                self.dotted[name] = alias.name if alias.asname else name


class _AnnotationReader:
    """Writes annotations again, with names that a `task.py` has."""

    def __init__(self, names: _Names) -> None:
        self._names = names
        self._parts = 0

    def first_known(self, annotations: Iterable[ast.expr | None]) -> str:
        """Return the first annotation that tells something; `Any` if none does."""
        for annotation in annotations:
            self._parts = 0
            if annotation is not None and (text := self._text(annotation, 0)) != _ANY:
                return text
        return _ANY

    def _text(self, node: ast.expr, depth: int) -> str:
        self._parts += 1
        if depth > _DEPTH_MAX or self._parts > _PARTS_MAX:
            return _ANY
        if isinstance(node, ast.Constant):
            return self._constant(node.value, depth)
        if isinstance(node, ast.Name) and node.id in self._names.aliases:
            return self._text(self._names.aliases[node.id], depth + 1)
        if isinstance(node, ast.Name | ast.Attribute):
            return _plain_text(self._canonical(node))
        return self._generic(*self._split(node), depth)

    def _constant(self, value: object, depth: int) -> str:
        if isinstance(value, str):
            return self._quoted(value, depth)
        return "None" if value is None else _ANY

    def _split(self, node: ast.expr) -> tuple[str, list[ast.expr]]:
        """Return the name of a type that takes others, and these; the name is "" if unknown."""
        match node:
            case ast.Tuple(elts=items):
                return _TUPLE, items
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                return _UNION, [left, right]
            case ast.Subscript(value=value, slice=inner):
                items = inner.elts if isinstance(inner, ast.Tuple) else [inner]
                return self._canonical(value), items
        return "", []

    def _quoted(self, text: str, depth: int) -> str:
        try:
            inner = ast.parse(text.strip(), mode="eval").body
        except (MemoryError, RecursionError, SyntaxError, ValueError):
            return _ANY
        return self._text(inner, depth + 1)

    def _generic(self, name: str, items: list[ast.expr], depth: int) -> str:
        count = _GENERICS.get(name)
        if count is None or not items or len(items) > _PARTS_MAX:
            return _ANY
        is_open = name == _TUPLE and len(items) == 2 and getattr(items[1], "value", 0) is Ellipsis
        texts = [self._text(item, depth + 1) for item in items[: 1 if is_open else None]]
        if count not in (0, len(items)):
            return _ANY
        return f"{name}[{', '.join([*texts, *(['...'] if is_open else [])])}]"

    def _canonical(self, node: ast.expr) -> str:
        """Return a name as the standard library or torch has it; "" for all others."""
        attributes: list[str] = []
        while isinstance(node, ast.Attribute) and len(attributes) < _DEPTH_MAX:
            attributes.insert(0, node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id in self._names.others:
            return ""
        dotted = ".".join([self._names.dotted.get(node.id, node.id), *attributes])
        module, _, name = dotted.rpartition(".")
        if module in _TYPING_MODULES:
            return _TYPING_NAMES.get(name, name)
        is_imported = node.id in self._names.dotted
        is_builtin = dotted in (*_PLAIN, *_GENERICS) and not attributes
        return dotted if is_imported or is_builtin else ""


def _plain_text(name: str) -> str:
    if name in (*_PLAIN, *_TENSORS):
        return name
    # `Optional` and `Union` need their types; the others may stand alone.
    return name if name in _GENERICS and name not in ("Optional", _UNION) else _ANY
