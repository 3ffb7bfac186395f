"""What an author's Python file defines, read from its text: it is never run here."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from shared.problems.document import bad_problem

# To read such a text takes half a second; the author's code is far shorter.
CODE_BYTES_MAX = 256 * 1024
ANY = "*"


@dataclass(frozen=True)
class Signature:
    """How a function may be called; `takes_any` of one whose text says too little."""

    takes: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    takes_any: bool = False

    def complaint(self, given: Mapping[str, object]) -> str:
        """What is wrong with these keyword arguments; "" if nothing is.

        >>> Signature(("size", "seed"), ("size",)).complaint({"sise": 4})
        "has no 'size'"
        """
        for name in self.needs:
            if name not in given:
                return f"has no {name!r}"
        for name in given:
            if not self.takes_any and name not in self.takes:
                return f"has {name!r}, which it does not take"
        return ""


@dataclass(frozen=True)
class Module:
    """The names that a file defines at its top, each with its signature; `texts` are plain ones."""

    names: Mapping[str, Signature]
    texts: Mapping[str, str] = field(default_factory=dict)

    def has(self, name: str) -> bool:
        """Whether it defines a name, as far as its text says."""
        return name in self.names or ANY in self.names

    def signature(self, name: str) -> Signature:
        """How it may be called."""
        return self.names.get(name, Signature(takes_any=True))


def read_module(name: str, data: bytes) -> Module:
    """What a file defines. Errors: Refused, if it is no Python.

    >>> read_module("reference.py", b"def f(a, b=1): ...").names["f"]
    Signature(takes=('a', 'b'), needs=('a',), takes_any=False)
    """
    if len(data) > CODE_BYTES_MAX:
        what = f"at most {CODE_BYTES_MAX} for code, so move data out of it"
        raise bad_problem(f"{name} has {len(data)} bytes: {what}", name)
    try:
        tree = ast.parse(data)
        names = dict(pair for node in tree.body for pair in _defined(node))
    except SyntaxError as error:
        place = f", line {error.lineno}" if error.lineno else ""
        raise bad_problem(f"{name}{place}: not Python: {error.msg}", name) from error
    except ValueError as error:
        # Null bytes, of which Python 3.11.4 and later make a SyntaxError.
        raise bad_problem(f"{name}: not Python: {error}", name) from error
    except (MemoryError, RecursionError) as error:
        raise bad_problem(f"{name}: not Python that can be read: write it flatter", name) from error
    return Module(names, dict(pair for node in tree.body for pair in _texts(node)))


def _defined(node: ast.stmt) -> Iterator[tuple[str, Signature]]:
    """Names that a statement makes; of an `if` or `try` all that any branch makes."""
    unknown = Signature(takes_any=True)
    if isinstance(node, ast.FunctionDef):
        yield node.name, unknown if node.decorator_list else _signature(node.args)
    elif isinstance(node, ast.ClassDef | ast.AsyncFunctionDef):
        yield node.name, unknown
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from ((one.asname or one.name, unknown) for one in node.names)
    else:
        for inner in ast.iter_child_nodes(node):
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                yield inner.id, unknown
            elif isinstance(inner, ast.stmt | ast.ExceptHandler):
                yield from _defined(inner)  # type: ignore[arg-type]  # a handler holds statements


def _texts(node: ast.stmt) -> Iterator[tuple[str, str]]:
    """What is plainly said by NAME = "text"."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Constant):
        return
    if isinstance(node.value.value, str):
        yield from ((one.id, node.value.value) for one in node.targets if isinstance(one, ast.Name))


def _signature(args: ast.arguments) -> Signature:
    plain = [one.arg for one in (*args.posonlyargs, *args.args)]
    required = plain[: len(plain) - len(args.defaults)]
    pairs = zip(args.kwonlyargs, args.kw_defaults, strict=True)
    required += [one.arg for one, default in pairs if default is None]
    named = [one.arg for one in (*args.args, *args.kwonlyargs)]
    return Signature(tuple(named), tuple(required), takes_any=args.kwarg is not None)
