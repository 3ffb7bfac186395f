"""The advisory screen: which lines of a source a moderator should look at.

It reads the text and runs nothing of it. What it finds depends on the bytes, the language and
`SCREEN_VERSION` alone. It decides nothing: honest kernels have findings too.
"""

import ast
import re
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from io import BytesIO
from itertools import islice, pairwise
from typing import NamedTuple

from ranker.domain.screen_rules import (
    CLOCKS,
    RULES,
    RULES_BY_ID,
    SETTINGS,
    TIMERS,
)
from shared.api.labels import SEVERITIES

# A longer source is read up to here; the harness takes no longer ones by default.
SOURCE_BYTES_MAX = 512 * 1024
# Of each rule, so many lines are named.
LINES_MAX = 3
EXCERPT_CHARS_MAX = 160
# Longer chains of attributes are resolved from their inner part, and longer paths are cut:
# otherwise time and memory would grow with the square of the source.
PATH_PARTS_MAX, PATH_CHARS_MAX = 32, 200
# How often `name = other_name` is followed.
ASSIGNMENTS_MAX = 8

ENTRIES = ("custom_kernel", "forward", "run", "solution")
FILLS = frozenset(
    (
        *("empty", "empty_like", "new_empty", "zeros", "zeros_like", "new_zeros", "ones", "zero_"),
        *("ones_like", "full", "full_like", "fill_", "float", "as_subclass", "view", "reshape"),
        *("detach", "contiguous", "requires_grad_"),
    )
)
COMPILED = ("triton", "numba", "tilelang", "cutlass", "jax", "cupy", "pallas")
LIBRARIES = ("torch", "numpy", "scipy", "cupy", "jax")
CONTAINERS = ("dict", "list", "set", "defaultdict", "deque", "OrderedDict", "Counter", "count")
CHANGES = frozenset(("append", "add", "setdefault", "update", "extend", "insert", "appendleft"))
PATCHERS = ("setattr", "delattr")
BUILTINS = frozenset(("exec", "eval", "compile", "open", "__import__"))
COMPILER_VARIABLES = (
    *("TORCH_", "CUDA_", "TRITON_", "CUTE_", "NVCC_", "CC", "CXX", "MAX_JOBS", "PYTORCH_", "ROCM_"),
    *("HIP_", "HSA_"),
)
# What returns memory as it was.
UNSET = ("torch.empty", "torch.empty_like", "numpy.empty", "torch.Tensor", "cupy.empty")
TEXT_ENCODINGS = ("utf-8", "utf-8-sig", "ascii", "us-ascii", "latin-1", "iso-8859-1")

_COMMENTS = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
# Characters without width, and those that change the direction of a line.
_MISLEADING = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\u00ad]")
_NATIVE = re.compile(r"[;{}][ \t]*$|^[ \t]*#[ \t]*include\b", re.MULTILINE)


class Finding(NamedTuple):
    """A line of a source, from 1, that a rule is about; `file` is "" for a source of one file."""

    rule: str
    line: int
    file: str = ""


def screen_source(source: bytes, *, is_python: bool) -> list[Finding]:
    r"""Return the findings of the screen, the most severe rules first; at most three of a rule.

    >>> screen_source(b"import torch\ntorch.equal = lambda a, b: True", is_python=True)
    [Finding(rule='library_patched', line=2, file='')]
    """
    source = source[:SOURCE_BYTES_MAX]
    text = source.decode("utf-8", "replace")
    findings = list(_misleading_lines(source, text, is_python=is_python))
    if is_python:
        try:
            tree = ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError, LookupError):
            findings += [Finding("source_unusual", 1), *_native_findings(text, 1)]
        else:
            findings += _PythonSource(tree).findings()
    else:
        findings += _native_findings(_remove_comments(text), 1)
    return _limit(findings)


def quote_line(source: bytes, line: int) -> str:
    r"""Return a line of a source without white space around it and without odd characters.

    >>> quote_line(b"first\n  second\x1b\n", 2), quote_line(b"", 7)
    ('second ', '')
    """
    lines = source[:SOURCE_BYTES_MAX].decode("utf-8", "replace").split("\n")
    text = lines[line - 1].strip() if 0 < line <= len(lines) else ""
    printable = "".join(letter if letter.isprintable() else " " for letter in text)
    return printable[:EXCERPT_CHARS_MAX]


def _limit(findings: list[Finding]) -> list[Finding]:
    counts: Counter[str] = Counter()
    limited = []
    for finding in sorted(set(findings), key=by_severity):
        counts[finding.rule] += 1
        if counts[finding.rule] <= LINES_MAX:
            limited.append(finding)
    return limited


def by_severity(finding: Finding) -> tuple[int, str, str, int]:
    """Return what findings are sorted by: the most severe rules first."""
    severity = RULES_BY_ID[finding.rule].severity
    return SEVERITIES.index(severity), finding.rule, finding.file, finding.line


def _misleading_lines(source: bytes, text: str, *, is_python: bool) -> Iterator[Finding]:
    for match in _MISLEADING.finditer(text):
        if match.start():
            yield Finding("source_unusual", text.count("\n", 0, match.start()) + 1)
            break
    if is_python:
        try:
            encoding, _ = tokenize.detect_encoding(BytesIO(source).readline)
        except (SyntaxError, LookupError):
            encoding = ""
        if encoding not in TEXT_ENCODINGS:
            yield Finding("source_unusual", 1)


def _remove_comments(text: str) -> str:
    """Return C++ or CUDA without comments, with the same lines."""
    return _COMMENTS.sub(lambda match: "\n" * match[0].count("\n"), text)


def _native_findings(code: str, first_line: int) -> Iterator[Finding]:
    """Yield what the rules find in C++ or CUDA."""
    for rule in RULES:
        if rule.native is None:
            continue
        line, place = first_line, 0
        for match in islice(rule.native.finditer(code), LINES_MAX):
            line += code.count("\n", place, match.start())
            place = match.start()
            yield Finding(rule.id, line)


class _PythonSource:
    """The nodes of a module, the names that it imports, and what it keeps between calls."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._nodes = list(ast.walk(tree))
        self._paths: dict[str, str] = {}
        for node in self._nodes:
            if isinstance(node, ast.Import | ast.ImportFrom):
                self._paths |= _imported(node)
        self._follow_assignments()
        functions = [it for it in self._nodes if isinstance(it, ast.FunctionDef)]
        self._kernels = {
            id(inner)
            for function in functions
            if self._is_kernel(function)
            for inner in ast.walk(function)
        }
        self._functions = [it for it in functions if id(it) not in self._kernels]
        # Their attributes are parts of a longer path.
        self._inner = {id(it.value) for it in self._nodes if isinstance(it, ast.Attribute)}
        self._docstrings = {id(it.value) for it in self._nodes if isinstance(it, ast.Expr)}
        self._defined = {it.name for it in functions}
        self._kept = set(self._kept_names()) - {""}
        self._unset = set(self._unset_names()) - {""}
        # `os.environ["TORCH_CUDA_ARCH_LIST"] = …` only prepares a compiler.
        self._settings = {id(inner) for node in self._nodes for inner in _compiler_setting(node)}

    def findings(self) -> Iterator[Finding]:
        """Yield all findings, in no order."""
        for node in self._nodes:
            if id(node) not in self._kernels:
                yield from self._uses(node)
                yield from self._patches(node)
                yield from self._hidden_calls(node)
                yield from self._waits(node)
                yield from self._address_keys(node)
                yield from self._comparisons(node)
            if isinstance(node, ast.Constant) and id(node) not in self._docstrings:
                yield from _literal_findings(node)
            if isinstance(node, ast.ClassDef):
                yield from self._lazy_classes(node)
        for function in self._functions:
            yield from self._kept_state(function)
            yield from self._fallbacks(function)
            if function.name in ENTRIES:
                yield from self._constant_answers(function)

    def _uses(self, node: ast.AST) -> Iterator[Finding]:
        """Yield the rules that a name, an attribute or an import is about."""
        if id(node) in self._settings:
            return
        name, paths = self._name(node), self._library_paths(node)
        if not name and not paths:
            return
        rules = _rules_by_name().get(name, frozenset()).union(*map(_rules_of_path, paths))
        for rule in rules:
            yield Finding(rule, getattr(node, "lineno", 1))

    def _name(self, node: ast.AST) -> str:
        """Return the name that a node uses of what no import names, "" for most nodes."""
        if isinstance(node, ast.Attribute):
            return "" if node.attr in BUILTINS else node.attr
        if isinstance(node, ast.FunctionDef):
            return node.name if node.name.startswith("__") else ""
        if not isinstance(node, ast.Name) or node.id in self._defined or node.id in self._paths:
            return ""
        return node.id if node.id in BUILTINS or node.id.startswith("__") else ""

    def _library_paths(self, node: ast.AST) -> list[str]:
        """Return the dotted paths that a node names as a whole."""
        if isinstance(node, ast.Import | ast.ImportFrom):
            return list(_imported(node, whole=True).values())
        is_whole = isinstance(node, ast.Attribute | ast.Name) and id(node) not in self._inner
        if is_whole and not isinstance(getattr(node, "ctx", None), ast.Load):
            # What is assigned is a patch or a setting.
            return []
        return [path for path in [self._resolve(node)] if path] if is_whole else []

    def _patches(self, node: ast.AST) -> Iterator[Finding]:
        """Yield assignments to what belongs to a library."""
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = [part for target in node.targets for part in _flatten(target)]
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets = [node.target]
        elif isinstance(node, ast.Delete):
            targets = node.targets
        elif isinstance(node, ast.Call) and _name_of(node.func) in PATCHERS and node.args:
            targets = [ast.Attribute(node.args[0], "", ast.Store())]
        for target in targets:
            path = self._patched_path(target)
            if path and not is_below(path, SETTINGS):
                rule = "timer_patched" if is_below(path, TIMERS) else "library_patched"
                yield Finding(rule, getattr(node, "lineno", 1))

    def _patched_path(self, target: ast.expr) -> str:
        """Return the path of what an assignment changes in a library, "" if it changes none."""
        if isinstance(target, ast.Attribute):
            return self._resolve(target).rstrip(".")
        if not isinstance(target, ast.Subscript):
            return ""
        if _name_of(target.value) == "__builtins__":
            return "builtins"
        path = self._resolve(target.value)
        return path if path == "sys.modules" or path.endswith("__dict__") else ""

    def _hidden_calls(self, node: ast.AST) -> Iterator[Finding]:
        """Yield `getattr` of a computed name, and bytes from a long text."""
        if not isinstance(node, ast.Call):
            return
        if _name_of(node.func) == "getattr" and len(node.args) > 1:
            name = node.args[1]
            is_composed = isinstance(name, ast.BinOp | ast.JoinedStr | ast.Call | ast.Subscript)
            if is_composed or (not isinstance(name, ast.Constant) and self._resolve(node.args[0])):
                yield Finding("code_hidden", node.lineno)

    def _waits(self, node: ast.AST) -> Iterator[Finding]:
        """Yield loops that wait for time to pass, and loops that never end."""
        if not isinstance(node, ast.While):
            return
        tested = [self._resolve(inner) for inner in ast.walk(node.test)]
        if any(is_below(path, CLOCKS) for path in tested):
            yield Finding("sleep_called", node.lineno)
        is_forever = isinstance(node.test, ast.Constant) and bool(node.test.value)
        leaves = (ast.Break, ast.Return, ast.Raise, ast.Yield)
        if is_forever and not any(isinstance(inner, leaves) for inner in ast.walk(node)):
            yield Finding("loop_endless", node.lineno)

    def _address_keys(self, node: ast.AST) -> Iterator[Finding]:
        """Yield what is found by a tensor's address."""
        if any(_takes_address(inner) for key in _keys(node) for inner in ast.walk(key)):
            yield Finding("answer_kept", getattr(node, "lineno", 1))

    def _unset_names(self) -> Iterator[str]:
        """Yield the names of new memory that nothing was written to."""
        for node in self._nodes:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                is_new = self._resolve(node.value.func) in UNSET
                yield from (_name_of(target) for target in node.targets if is_new)

    def _comparisons(self, node: ast.AST) -> Iterator[Finding]:
        """Yield comparisons of memory that nothing was written to."""
        if isinstance(node, ast.Compare) and _name_of(node.left) in self._unset:
            yield Finding("memory_searched", node.lineno)

    def _lazy_classes(self, node: ast.ClassDef) -> Iterator[Finding]:
        """Yield subclasses of tensors, and classes that answer for every attribute."""
        methods = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
        is_tensor = any(self._resolve(base) == "torch.Tensor" for base in node.bases)
        if is_tensor or methods & {"__getattr__", "__getattribute__"}:
            yield Finding("lazy_answer", node.lineno)

    def _kept_names(self) -> Iterator[str]:
        """Yield the names of containers and tensors of the module."""
        for node in self._tree.body:
            if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
                continue
            value = node.value
            is_kept = isinstance(value, ast.Dict | ast.List | ast.Set | ast.ListComp | ast.BinOp)
            if isinstance(value, ast.Call):
                path = self._resolve(value.func) or _name_of(value.func)
                is_kept = path.rpartition(".")[2] in CONTAINERS or path.startswith("torch.")
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if is_kept:
                yield from (_name_of(part) for it in targets for part in _flatten(it))

    def _kept_state(self, function: ast.FunctionDef) -> Iterator[Finding]:
        """Yield what a function keeps for later calls, counts, or answers from what it kept."""
        changed: set[str] = set()
        for node in ast.walk(function):
            line = getattr(node, "lineno", 1)
            if isinstance(node, ast.Global | ast.Nonlocal):
                changed.update(node.names)
                yield Finding("state_kept", line)
            elif name := self._changed_name(node):
                changed.add(name)
                yield Finding("state_kept", line)
            elif isinstance(node, ast.Call) and _name_of(node.func) == "next":
                if any(self._root_name(it) in self._kept for it in node.args):
                    yield Finding("call_counted", line)
            elif function.name in ENTRIES and self._answers_from_kept(node):
                yield Finding("answer_kept", line)
        for node in ast.walk(function):
            yield from self._counts(node, changed)

    def _changed_name(self, node: ast.AST) -> str:
        """Return the name of the container that a node changes, "" if it changes none."""
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            name = self._root_name(node)
        elif isinstance(node, ast.Call) and _attribute_of(node.func) in CHANGES:
            name = self._root_name(node.func)
        else:
            return ""
        return name if name in self._kept else ""

    def _answers_from_kept(self, node: ast.AST) -> bool:
        """Whether a node copies or returns an element of a container of the module."""
        values: list[ast.expr] = []
        if isinstance(node, ast.Call) and _attribute_of(node.func) == "copy_":
            values = node.args
        elif isinstance(node, ast.Return) and isinstance(node.value, ast.Subscript):
            values = [node.value]
        return any(
            isinstance(it, ast.Subscript | ast.Name) and self._root_name(it) in self._kept
            for it in values
        )

    def _counts(self, node: ast.AST, changed: set[str]) -> Iterator[Finding]:
        """Yield decisions by how much a function kept, or by a counter that it changes."""
        if isinstance(node, ast.Compare | ast.BinOp):
            parts = [node.left, *(node.comparators if isinstance(node, ast.Compare) else [])]
        elif isinstance(node, ast.AugAssign):
            parts = [node.target]
        else:
            return
        for part in parts:
            is_length = isinstance(part, ast.Call) and _name_of(part.func) == "len"
            value = part.args[0] if is_length and isinstance(part, ast.Call) and part.args else part
            is_counter = is_length or isinstance(node, ast.AugAssign)
            if is_counter and isinstance(value, ast.Name) and value.id in changed:
                yield Finding("call_counted", getattr(node, "lineno", 1))

    def _fallbacks(self, function: ast.FunctionDef) -> Iterator[Finding]:
        """Yield exceptions that a library's computation follows."""
        for parent in ast.walk(function):
            for body in _bodies(parent):
                for node, later in pairwise([*body, None]):
                    if not isinstance(node, ast.Try):
                        continue
                    for handler in node.handlers:
                        is_silent = all(isinstance(it, ast.Pass) for it in handler.body)
                        follows = [later] if is_silent and later else []
                        if any(self._computes(it) for it in (*handler.body, *follows)):
                            yield Finding("fallback_used", handler.lineno)

    def _computes(self, tree: ast.AST) -> bool:
        """Whether a statement calls a library of arrays, or multiplies matrices."""
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                path = self._resolve(node.func)
                if path.partition(".")[0] in LIBRARIES and path.rpartition(".")[2] not in FILLS:
                    return True
            elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
                return True
        return False

    def _constant_answers(self, function: ast.FunctionDef) -> Iterator[Finding]:
        """Yield an entry function that only returns, or fills, memory."""
        nodes = list(ast.walk(function))
        is_answering = any(isinstance(node, ast.Return) and node.value for node in nodes)
        if is_answering and not any(_is_work(node) for node in nodes):
            yield Finding("answer_constant", function.lineno)

    def _is_kernel(self, function: ast.FunctionDef) -> bool:
        """Whether a compiler reads the function, and Python does not run it."""
        decorators = [it.func if isinstance(it, ast.Call) else it for it in function.decorator_list]
        return any(self._resolve(it).partition(".")[0] in COMPILED for it in decorators)

    def _root_name(self, node: ast.AST) -> str:
        for _ in range(PATH_PARTS_MAX):
            if isinstance(node, ast.Attribute | ast.Subscript):
                node = node.value
            else:
                break
        return _name_of(node)

    def _resolve(self, node: ast.AST) -> str:
        """Return the dotted path of what an import binds, "" for anything else."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute) and len(parts) < PATH_PARTS_MAX:
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self._paths:
            return ""
        return ".".join([self._paths[node.id], *reversed(parts)])[:PATH_CHARS_MAX]

    def _follow_assignments(self) -> None:
        """Add the names of `name = path`, also where one such name is assigned to another."""
        assignments = [
            (target.id, node.value)
            for node in self._nodes
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        ]
        for _ in range(ASSIGNMENTS_MAX):
            known = len(self._paths)
            for name, value in assignments:
                if name not in self._paths and (path := self._resolve(value)):
                    self._paths[name] = path
            if len(self._paths) == known:
                return


def _imported(node: ast.Import | ast.ImportFrom, *, whole: bool = False) -> dict[str, str]:
    """Return the paths that a statement imports, by the names that it binds.

    `import a.b` binds `a`; with `whole`, the path is `a.b` all the same.
    """
    paths: dict[str, str] = {}
    for item in node.names:
        if isinstance(node, ast.ImportFrom):
            paths[item.asname or item.name] = f"{node.module or ''}.{item.name}".strip(".")
        elif item.asname or whole:
            paths[item.asname or item.name] = item.name
        else:
            root = item.name.partition(".")[0]
            paths[root] = root
    return {name: path[:PATH_CHARS_MAX] for name, path in paths.items()}


def _keys(node: ast.AST) -> list[ast.AST]:
    """Return what a node looks something up by."""
    if isinstance(node, ast.Subscript):
        return [node.slice]
    # A remainder of an address is an alignment.
    if isinstance(node, ast.Compare) and not isinstance(node.left, ast.BinOp):
        kinds = (ast.In, ast.NotIn, ast.Eq, ast.NotEq, ast.Is, ast.IsNot)
        return [node] if any(isinstance(kind, kinds) for kind in node.ops) else []
    if isinstance(node, ast.Call) and _attribute_of(node.func) in ("get", "setdefault"):
        return list(node.args)
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple | ast.Call):
        is_key = any("key" in _name_of(target).lower() for target in node.targets)
        return [node.value] if is_key else []
    return []


def _rules_of_path(path: str) -> frozenset[str]:
    """Return the rules that are about a dotted path, or about what it is below."""
    parts = path.split(".")
    above = (".".join(parts[:length]) for length in range(1, len(parts) + 1))
    return frozenset[str]().union(*(_rules_by_path().get(name, ()) for name in above))


@cache
def _rules_by_name() -> Mapping[str, frozenset[str]]:
    return _by_use((name, rule.id) for rule in RULES for name in rule.names.split())


@cache
def _rules_by_path() -> Mapping[str, frozenset[str]]:
    return _by_use((path, rule.id) for rule in RULES for path in rule.paths)


def _by_use(uses: Iterable[tuple[str, str]]) -> Mapping[str, frozenset[str]]:
    rules: defaultdict[str, set[str]] = defaultdict(set)
    for name, rule in uses:
        rules[name].add(rule)
    return {name: frozenset(ids) for name, ids in rules.items()}


def is_below(path: str, roots: tuple[str, ...]) -> bool:
    """Return whether a dotted path is one of the roots, or below one.

    >>> is_below("torch.cuda.Event", ("torch.cuda",)), is_below("torch.cudart", ("torch.cuda",))
    (True, False)
    """
    return any(path == root or path.startswith(f"{root}.") for root in roots)


def _name_of(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _attribute_of(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else ""


def _flatten(target: ast.expr) -> Iterator[ast.expr]:
    """Yield the targets of `a, b = …`."""
    yield from target.elts if isinstance(target, ast.Tuple | ast.List) else [target]


def _bodies(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        body = getattr(node, name, None)
        if isinstance(body, list):
            yield body


def _is_work(node: ast.AST) -> bool:
    """Whether a node may compute something."""
    if isinstance(node, ast.Call):
        return (_attribute_of(node.func) or _name_of(node.func)) not in FILLS
    is_written = isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
    return is_written or isinstance(node, ast.BinOp | ast.AugAssign | ast.With)


def _takes_address(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    return _attribute_of(node.func) == "data_ptr" or _name_of(node.func) == "id"


def _literal_findings(node: ast.Constant) -> Iterator[Finding]:
    """Yield what a string or bytes literal shows: words, long codes, or C++ and CUDA."""
    value = node.value.decode("latin-1") if isinstance(node.value, bytes) else node.value
    if not isinstance(value, str):
        return
    for rule in RULES:
        if rule.literals is not None and rule.literals.search(value):
            yield Finding(rule.id, node.lineno)
    if _NATIVE.search(value):
        yield from _native_findings(_remove_comments(value), node.lineno)


def _compiler_setting(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of `os.environ["TORCH_…"] = …` and `os.environ.setdefault("TORCH_…", …)`."""
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
        table, key = node.value, node.slice
    elif isinstance(node, ast.Call) and _attribute_of(node.func) == "setdefault" and node.args:
        table, key = node.func, node.args[0]
    else:
        return
    name = key.value if isinstance(key, ast.Constant) else None
    if isinstance(name, str) and name.startswith(COMPILER_VARIABLES):
        yield from ast.walk(table)
