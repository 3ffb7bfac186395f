"""The normal form of sources: without comments, white space and the names of local variables."""

import ast
import hashlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

from shared.problems.submission_file import MEDIA
from shared.source_files import HEADER_SUFFIXES

PYTHON, PLAIN_TEXT = MEDIA[".py"], "text/plain"
# At most 0.2 s of a core [measured], for the densest source; larger ones keep their own digest.
NORMAL_BYTES_MAX = 64 * 1024
# A program that calls one of these can see the names of its local variables or its text.
_INTROSPECTION = frozenset({"locals", "vars", "dir", "eval", "exec", "inspect", "__doc__"})

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_Comprehension: TypeAlias = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_Names: TypeAlias = dict[str, str]


def normal_digest(texts: Mapping[str, str]) -> str:
    """The SHA-256 of the normal form of a submission's files, in hex; "" if it has none.

    `texts` are the files by name, the entry first. Files that are too large together, or that the
    parser refuses, have no normal form. The names of the files beside the entry are part of it.

    >>> first = "def f(a):\\n    b = a  # copy\\n    return b"
    >>> second = "def f(x):\\n    y = x\\n\\n    return y"
    >>> normal_digest({"k.py": first}) == normal_digest({"k.py": second})
    True
    >>> normal_digest({"k.py": "def f(:"})
    ''
    """
    try:
        if sum(len(text.encode()) for text in texts.values()) > NORMAL_BYTES_MAX:
            return ""
        entry, *others = _digest_files(texts)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    names = list(texts)[1:]
    lines = [entry, *sorted(f"{name} {digest}" for name, digest in zip(names, others, strict=True))]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest() if others else entry


def _digest_files(texts: Mapping[str, str]) -> list[str]:
    """Return the digest of each file's normal form. Raises what the parsers raise."""
    trees = {name: ast.parse(text) for name, text in texts.items() if _media(name) == PYTHON}
    nodes = {name: list(ast.walk(tree)) for name, tree in trees.items()}
    every = [node for own in nodes.values() for node in own]
    # A parameter may be passed by its name from another file, also from one that is data.
    words = {
        word
        for name, text in texts.items()
        if name not in trees and trees
        for word in _WORD.findall(text)
    }
    digests = []
    for name, text in texts.items():
        media, tree = _media(name), trees.get(name)
        if tree is not None:
            form = _normalize_python(tree, nodes[name], every, words)
        else:
            form = text if media == PLAIN_TEXT else _normalize_other(text)
        digests.append(hashlib.sha256(f"{media}\n{form}".encode()).hexdigest())
    return digests


def _media(name: str) -> str:
    """Return the media type of a file by its suffix; that of C++ for headers."""
    end = f".{name.rpartition('.')[2]}"
    return MEDIA.get(end, MEDIA[".cpp"] if end in HEADER_SUFFIXES else PLAIN_TEXT)


def _normalize_python(
    tree: ast.Module, nodes: Sequence[ast.AST], every: Sequence[ast.AST], words: Collection[str]
) -> str:
    """Return the form of a file; `every` are the nodes of all files, `words` those of the rest."""
    names = {node.id for node in every if isinstance(node, ast.Name)}
    names |= {node.attr for node in every if isinstance(node, ast.Attribute)}
    if names & _INTROSPECTION:
        return ast.dump(tree)
    for node in nodes:
        _remove_docstring(node)
    _Renamer(every, words).visit(tree)
    return ast.dump(tree)


def _remove_docstring(node: ast.AST) -> None:
    if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return
    match node.body:
        case [ast.Expr(value=ast.Constant(value=str())), *_]:
            del node.body[0]


class _Renamer(ast.NodeTransformer):
    """Number the variables of each function in the order in which they appear.

    A parameter keeps its name if a file has it as the keyword of a call or as a string: that is how
    `triton.Config({"BLOCK": 64})` passes a parameter. A function with a class in it keeps all.
    """

    def __init__(self, nodes: Sequence[ast.AST], words: Collection[str]) -> None:
        self._names: _Names = {}
        self._count = 0
        self._fixed = {node.arg for node in nodes if isinstance(node, ast.keyword)} | {*words}
        self._fixed |= {
            node.value
            for node in nodes
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self._names.get(node.id, node.id)
        return node

    def visit_Nonlocal(self, node: ast.Nonlocal) -> ast.AST:
        node.names = [self._names.get(name, name) for name in node.names]
        return node

    def _visit_function(self, node: _Function) -> ast.AST:
        """Visit defaults, decorators and annotations outside, and the body in its own scope."""
        if not self._names and any(isinstance(part, ast.ClassDef) for part in ast.walk(node)):
            return node
        parameters = _list_parameters(node.args)
        for part in _list_outer(node, parameters):
            self.visit(part)
        body: Sequence[ast.AST] = [node.body] if isinstance(node, ast.Lambda) else node.body
        inside = list(_walk_scope(body))
        bound = [arg.arg for arg in parameters]
        verbatim = {name for name in bound if name in self._fixed}
        verbatim.update(name for part in inside for name in _list_kept(part))
        bound += [
            part.id
            for part in inside
            if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load)
        ]
        free = {name for part in inside if isinstance(part, ast.Nonlocal) for name in part.names}

        def visit_body() -> None:
            for arg in parameters:
                arg.arg = self._names.get(arg.arg, arg.arg)
            for part in body:
                self.visit(part)

        self._with_scope([name for name in bound if name not in free], verbatim, visit_body)
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _visit_function  # noqa: N815

    def _visit_comprehension(self, node: _Comprehension) -> ast.AST:
        """Visit the first iterable outside, and the rest in a scope of its own."""
        first = node.generators[0]
        self.visit(first.iter)
        bound = [
            part.id
            for generator in node.generators
            for part in ast.walk(generator.target)
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
        ]

        def visit_rest() -> None:
            for generator in node.generators:
                parts = [generator.target, *generator.ifs]
                for part in parts if generator is first else [generator.iter, *parts]:
                    self.visit(part)
            is_dict = isinstance(node, ast.DictComp)
            for part in [node.key, node.value] if is_dict else [node.elt]:  # type: ignore[union-attr]
                self.visit(part)

        self._with_scope(bound, set(), visit_rest)
        return node

    visit_ListComp = visit_SetComp = _visit_comprehension  # noqa: N815
    visit_DictComp = visit_GeneratorExp = _visit_comprehension  # noqa: N815

    def _with_scope(
        self, bound: Sequence[str], verbatim: set[str], visit: Callable[[], None]
    ) -> None:
        names, count = self._names, self._count
        self._names = names | {name: name for name in verbatim}
        for name in dict.fromkeys(bound):
            if name not in verbatim:
                # No identifier begins with a digit.
                self._names[name] = f"{self._count}"
                self._count += 1
        visit()
        self._names, self._count = names, count


def _list_parameters(args: ast.arguments) -> list[ast.arg]:
    several = filter(None, [args.vararg, args.kwarg])
    return [*args.posonlyargs, *args.args, *args.kwonlyargs, *several]


def _list_outer(node: _Function, parameters: Sequence[ast.arg]) -> list[ast.expr]:
    """The expressions of a function's head, which belong to the scope around it."""
    outer = _list_defaults(node.args)
    if not isinstance(node, ast.Lambda):
        outer += [*node.decorator_list, *filter(None, [node.returns])]
    return outer + [arg.annotation for arg in parameters if arg.annotation is not None]


def _list_defaults(args: ast.arguments) -> list[ast.expr]:
    return [*args.defaults, *filter(None, args.kw_defaults)]


def _walk_scope(parts: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """The nodes of a scope in their order, without the insides of its functions.

    The targets of a comprehension belong to a scope of their own; what it assigns by `:=` does not.
    """
    waiting = list(reversed(parts))
    while waiting:
        node = waiting.pop()
        yield node
        inside: Sequence[ast.AST]
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inside = [*node.decorator_list, *_list_defaults(node.args)]
        elif isinstance(node, ast.Lambda):
            inside = _list_defaults(node.args)
        elif isinstance(node, ast.comprehension):
            inside = [node.iter, *node.ifs]
        else:
            inside = list(ast.iter_child_nodes(node))
        waiting.extend(reversed(inside))


def _list_kept(node: ast.AST) -> list[str]:
    """The names that a statement binds, or refers to, by their text."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return [name]
        case ast.alias(name=name, asname=asname):
            return [asname or name.partition(".")[0]]
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
            return [name]
        case ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            return [name]
        case ast.Global(names=names):
            return names
        case _:
            return []


_TOKEN = re.compile(
    r"""(?P<space>(?:\s|//[^\n]*|/\*(?:.*?\*/|.*))+)"""
    r"""|(?P<text>"(?:[^"\\\n]|\\.)*+"?|'(?:[^'\\\n]|\\.)*+'?)"""
    r"""|(?P<word>\w+)|(?P<other>.)""",
    re.DOTALL,
)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_IS_WORD, _WORD = re.compile(r"\w"), re.compile(r"\w+")
# A comment like `//! WARPBOARD compiler: nvrtc` is no comment to the platform.
_DIRECTIVE = re.compile(r"^\s*//!.*$", re.MULTILINE)


def _normalize_other(text: str) -> str:
    """Strip the comments and the white space of a C++, CUDA or HIP source outside its strings.

    A space stays where two words or two equal signs would become one, and in the lines of the
    preprocessor. A source with raw strings, or with a line continued by a backslash, has no normal
    form. Raises ValueError.
    """
    if 'R"' in text or "\\\n" in text or "\\\r" in text:
        raise ValueError("no normal form")
    parts = [f"{line.strip()}\n" for line in _DIRECTIVE.findall(text)]
    before, space, is_line_start, is_preprocessor = "", "", True, False
    for match in _TOKEN.finditer(text):
        part = match[0]
        if match["space"]:
            space = " "
            if "\n" in _COMMENT.sub("", part):
                space = "\n" if is_preprocessor else " "
                is_line_start, is_preprocessor = True, False
            continue
        if part == "#" and is_line_start:
            space, is_preprocessor = "\n", True
        elif space == " " and not (is_preprocessor or _would_join(before, part)):
            space = ""
        parts += [space, part]
        before, space, is_line_start = part, "", False
    return "".join(parts)


def _would_join(before: str, token: str) -> bool:
    last, first = before[-1:], token[0]
    return last == first or bool(_IS_WORD.match(last) and _IS_WORD.match(first))
