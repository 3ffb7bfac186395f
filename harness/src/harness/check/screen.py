"""The static screen of a problem's shortcut policy: what a submission's source uses.

It reads the text and runs nothing of it, so a submission cannot forge what it finds. A forbidden
name is a hit, with its line; whatever hides what is called, such as `getattr` of a computed name,
is only a doubt: honest code has it too, so a moderator decides.
"""

import ast
import json
import os
import re
import resource
import select
import signal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import NoReturn

from harness.build.plan import read_memory
from harness.check.shortcuts import Rules
from harness.messages import make_printable
from harness.problem import ShortcutPolicy
from harness.sandbox import host

FINDINGS_MAX = 8
FINDING_CHARS_MAX = 200
# What a screen may use. 200 KB of plain code take 4 s and 200 MB (2 cores, 2026-11).
SCREEN_CPU_S_MAX = 10
# By wall time, because a machine may be busy.
SCREEN_S_MAX = 30.0
SCREEN_MEMORY_BYTES = 1024**3
_NO_KERNEL = "it defines no kernel of its own, which the problem requires"
_UNREADABLE = "the source cannot be parsed by the screen"
# Longer paths are cut, and deeper chains are resolved from their inner part: otherwise, time and
# memory would grow with the square of the source.
_PATH_CHARS_MAX = 200
_PATH_PARTS_MAX = 32


# What a forbidden library looks like in C++ and CUDA, also within a string of Python. Plain words,
# as in a message, are no use of it.
_CALLS = r"#\s*include\s*[<\"]{0}|\b{0}[A-Z_]\w*\s*[({{<;]|-l{0}\b|\blib{0}\w*\.so"
_CUTLASS = re.compile(r"#\s*include\s*[<\"](?:cutlass|cute)/|\b(?:cutlass|cute)::")

# What defines a kernel in Python: names that a decorator or a call resolves to.
_KERNELS = (
    *("triton.jit", "triton.experimental.gluon.jit", "cutlass.cute.kernel", "tilelang.jit"),
    *("numba.cuda.jit", "numba.njit", "numba.jit", "numba.vectorize", "numba.guvectorize"),
    *("torch.utils.cpp_extension", "torch.cuda._compile_kernel", "torch.cuda.jiterator"),
    *("cupy.RawKernel", "cupy.RawModule", "cupy.ElementwiseKernel", "cupy.ReductionKernel"),
    *("ctypes", "cffi", "cuda.bindings.nvrtc"),
)
_JITS = ("triton", "numba", "cutlass", "tilelang")
_JIT_DECORATORS = ("jit", "njit", "kernel", "prim_func", "macro", "vectorize", "guvectorize")

# Through these a program calls what its text does not name, or where no record looks.
_HIDING_CALLS = ("getattr", "eval", "exec", "compile", "__import__", "globals", "locals", "vars")
_HIDING_MODULES = (
    *("importlib", "ctypes", "cffi", "pickle", "marshal", "base64", "zlib", "codecs", "inspect"),
    *("gc", "threading", "concurrent", "multiprocessing", "subprocess", "runpy", "types"),
)
_HIDING_NAMES = ("__dict__", "__getattribute__", "__builtins__", "__globals__", "__subclasses__")
# The plain Python of a kernel, in which the screen looks for no products.
_UNWRAPPED_NAMES = ("fn", "py_func", "__wrapped__")
_HIDING_PATHS = ("sys.modules", "operator.attrgetter", "operator.methodcaller", "torch._C")

_ARRAY_LIBRARIES = ("torch.", "numpy.", "scipy.", "cupy.", "cupyx.", "jax.")

# These nodes name nothing.
_NAMELESS = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)
_WORDS = re.compile(r"\w+")
_LINE = re.compile(r"(?:(?P<file>[^\s,:]+), )?line (?P<line>\d+): ")
_PYTHON = ".py"

# A method that these have too proves nothing by its name.
_PLAIN_TYPES = (list, dict, set, str, bytes)

# The end of the text ends a comment, too: searching again behind each start would be quadratic.
_COMMENTS = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_NATIVE_HIDING = re.compile(r"\b(dl(?:m?open|v?sym)|popen|system|exec[lv]\w*)\s*\(")
_NATIVE_TORCH = re.compile(r"\b(?:at|torch)::|#\s*include\s*[<\"](?:torch|ATen)/")


@dataclass(frozen=True)
class Screening:
    """What a screen found: `hits` are certain, `doubts` need a moderator. Each names its line."""

    hits: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)


def screen_source(files: Mapping[str, bytes], policy: ShortcutPolicy) -> Screening:
    """Return what a submission's files show under a policy; nothing without a policy.

    `files` are by name, the entry first. A file that is not Python is read as C++ or CUDA: other
    files may include, compile or load it.
    """
    if policy.is_empty:
        return Screening()
    rules, findings = Rules(policy), _Findings(list(files))
    words = _screen_native(files, rules, findings)
    screens = _screen_python(files, rules, findings)
    has_kernel = any(screen.has_kernel for screen in screens.values())
    ambiguous = {name for kind in _PLAIN_TYPES for name in dir(kind)}
    ambiguous.update(*(screen.own_names() for screen in screens.values()))
    ambiguous |= words if has_kernel else set()
    for name, screen in screens.items():
        screen.ambiguous = ambiguous
        findings.add(name, screen.hits(), screen.doubts())
    entry = next(iter(files))
    # A native file is the participant's kernel as a whole.
    if rules.requires_own_kernel and entry in screens and not has_kernel:
        unknown = sorted({path for screen in screens.values() for path in screen.unknown})
        doubts = (f"no kernel of its own was recognised; {path} may define one" for path in unknown)
        missing = (
            () if unknown else ("it defines no kernel of its own, which the problem requires",)
        )
        findings.add(entry, ((0, hit) for hit in missing), ((0, doubt) for doubt in doubts))
    return findings.screening()


def _screen_native(files: Mapping[str, bytes], rules: Rules, findings: "_Findings") -> set[str]:
    """Screen the files that are not Python; return the words in them."""
    words: set[str] = set()
    for name, source in files.items():
        if not name.endswith(_PYTHON):
            text = source.decode(errors="replace")
            code = _remove_comments(text)
            findings.add(name, _native_hits(code, rules, 1), _native_doubts(code, rules, 1))
            words.update(_WORDS.findall(text))
    return words


def _screen_python(
    files: Mapping[str, bytes], rules: Rules, findings: "_Findings"
) -> dict[str, "_PythonScreen"]:
    """Return what is known about each file of Python, through the imports of one from another."""
    screens: dict[str, _PythonScreen] = {}
    modules: dict[str, _PythonScreen] = {}
    for name in filter(lambda name: name.endswith(_PYTHON), files):
        try:
            tree = ast.parse(files[name])
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            # If Python itself can load it, a moderator must read it.
            findings.add(name, (), [(0, _UNREADABLE)])
            continue
        screens[name] = modules[_module_name(name)] = _PythonScreen(name, tree, rules, modules)
    for screen in screens.values() if len(screens) > 1 else ():
        screen.follow_modules()
    for screen in screens.values():
        screen.find_kernels()
    return screens


class _Findings:
    """Collects the findings of each file: those about the whole file, then in the order of lines.

    They name their file if there are several.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._hits: set[tuple[int, int, str]] = set()
        self._doubts: set[tuple[int, int, str]] = set()

    def add(
        self, name: str, hits: Iterable[tuple[int, str]], doubts: Iterable[tuple[int, str]]
    ) -> None:
        """Add findings with their lines; 0 is the whole file."""
        place = self._names.index(name)
        self._hits.update((place, line, text) for line, text in hits)
        self._doubts.update((place, line, text) for line, text in doubts)

    def screening(self) -> Screening:
        """Return the first findings."""
        return Screening(list(self._limit(self._hits)), list(self._limit(self._doubts)))

    def _limit(self, findings: set[tuple[int, int, str]]) -> Iterator[str]:
        """Yield the first findings in the order of the files, each line and text once."""
        unique = sorted(findings)
        for place, line, text in unique[:FINDINGS_MAX]:
            places = [self._names[place]] if len(self._names) > 1 else []
            places += [f"line {line}"] if line else []
            finding = f"{', '.join(places)}: {text}" if places else text
            yield make_printable(finding)[:FINDING_CHARS_MAX]
        if len(unique) > FINDINGS_MAX:
            yield f"and {len(unique) - FINDINGS_MAX} more"


def _module_name(file: str) -> str:
    """Return the name by which other files import a file of Python.

    >>> _module_name("lib/ops.py"), _module_name("lib/__init__.py")
    ('lib.ops', 'lib')
    """
    return file.removesuffix(_PYTHON).removesuffix("/__init__").replace("/", ".")


def screen_in_child(
    files: Mapping[str, bytes],
    policy: ShortcutPolicy,
    *,
    limit_s: int = SCREEN_CPU_S_MAX,
    memory_bytes: int = SCREEN_MEMORY_BYTES,
) -> Screening:
    """Screen a submission's files in a child process with limits of CPU time and memory.

    Files that exhaust them, or crash the parser, only harm the child and are doubted.
    """
    if policy.is_empty:
        return Screening()
    memory = os.memfd_create("screening", os.MFD_CLOEXEC)
    try:
        child = os.fork()
        if child == 0:
            _screen_and_exit(files, policy, memory, (limit_s, memory_bytes))
        pidfd = os.pidfd_open(child)
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        if not poll.poll(1000 * SCREEN_S_MAX):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        os.close(pidfd)
        _, status = os.waitpid(child, 0)
        data = read_memory(memory) if status == 0 else b""
    finally:
        os.close(memory)
    if not data:
        return Screening(doubts=[_UNREADABLE])
    return Screening(**json.loads(data))


def _screen_and_exit(
    files: Mapping[str, bytes], policy: ShortcutPolicy, memory: int, limits: tuple[int, int]
) -> NoReturn:
    cpu_s, memory_bytes = limits
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
        host.limit_private_bytes(host.private_bytes() + memory_bytes)
        screening = screen_source(files, policy)
        os.write(memory, json.dumps(asdict(screening)).encode())
    except BaseException:  # noqa: BLE001  (a fork must never return into its parent's code)
        os._exit(1)
    os._exit(0)


def quote_lines(findings: Iterable[str], files: Mapping[str, bytes]) -> str:
    r"""Return findings as text, each above the line of the source that it names.

    >>> quote_lines(["line 2: mm is not allowed", "and 1 more"], {"k.py": b"import x\n  mm()\n"})
    'line 2: mm is not allowed\n    mm()\nand 1 more'
    """
    texts, entry = [], next(iter(files))
    for finding in findings:
        texts.append(finding)
        place = _LINE.match(finding)
        if place is None:
            continue
        lines = files.get(place["file"] or entry, b"").decode(errors="replace").split("\n")
        if int(place["line"]) <= len(lines):
            code = make_printable(lines[int(place["line"]) - 1].strip())
            texts.append(f"    {code[:FINDING_CHARS_MAX]}")
    return "\n".join(texts)


def _remove_comments(text: str) -> str:
    """Return C++ or CUDA without comments; a single line may be a path with two slashes."""
    if "\n" not in text:
        return text
    return _COMMENTS.sub(lambda match: "\n" * match[0].count("\n"), text)


def _native_hits(code: str, rules: Rules, first_line: int) -> Iterator[tuple[int, str]]:
    """Yield the uses of forbidden libraries and functions in C++ or CUDA."""
    patterns = [
        (library, _CUTLASS if library == "cutlass" else re.compile(_CALLS.format(library)))
        for library in rules.libraries
    ]
    names = "|".join(map(re.escape, sorted(rules.methods)))
    if names:
        patterns.append(("", re.compile(rf"\b(?:at|torch)::(?:native::)?({names})\s*\(")))
    for library, pattern in patterns:
        for match in pattern.finditer(code):
            line = _line_of(match, first_line)
            use = " ".join(match[0].split())[:60].rstrip("({<; ")
            yield line, f"{use} ({library or rules.methods[match[1]]} is not allowed)"


def _native_doubts(code: str, rules: Rules, first_line: int) -> Iterator[tuple[int, str]]:
    """Yield what may call something forbidden in C++ or CUDA."""
    for match in _NATIVE_HIDING.finditer(code):
        yield _line_of(match, first_line), f"{match[1]} can hide what is called"
    names = "|".join(map(re.escape, sorted(rules.methods)))
    if names and _NATIVE_TORCH.search(code):
        for match in re.finditer(rf"(?:\.|->)\s{{0,20}}({names})\s*\(", code):
            yield _line_of(match, first_line), f".{match[1]} may be torch's"
    substitutes = "|".join(map(re.escape, sorted(rules.substitute_methods)))
    if substitutes:
        for match in re.finditer(rf"\b(?:at|torch)::(?:native::)?({substitutes})\s*\(", code):
            entry = rules.substitute_methods[match[1]]
            yield _line_of(match, first_line), describe_substitute(f"at::{match[1]}", entry)


def _line_of(match: re.Match[str], first_line: int) -> int:
    return first_line + match.string.count("\n", 0, match.start())


class _PythonScreen:
    """The names that a module of Python uses, resolved through its imports and assignments."""

    def __init__(
        self, file: str, tree: ast.Module, rules: Rules, modules: Mapping[str, "_PythonScreen"]
    ) -> None:
        self._rules = rules
        # The submission's own modules, this one among them, by name.
        self._modules = modules
        module, folder = _module_name(file), file.rpartition("/")[0].replace("/", ".")
        self._package = module if file.endswith("/__init__.py") else folder
        self._nodes = [node for node in ast.walk(tree) if not isinstance(node, _NAMELESS)]
        self.aliases: dict[str, str] = {}
        self._stars: list[tuple[int, str]] = []
        for node in self._nodes:
            if isinstance(node, ast.Import | ast.ImportFrom):
                self.aliases |= _imported(node, self._package, is_bound=True)
                if any(item.name == "*" for item in node.names):
                    self._stars.append((node.lineno, getattr(node, "module", "") or "."))
        self._collect_assignments()
        # The name `getattr` of calls whose attribute is a literal, which hides nothing.
        self._literal_getattrs = {
            id(node.func)
            for node in self._nodes
            if isinstance(node, ast.Call) and _literal_attribute(node) is not None
        }
        self._attribute_names = {
            id(node.args[1])
            for node in self._nodes
            if isinstance(node, ast.Call) and _literal_attribute(node) is not None
        }
        docstrings = {id(node.value) for node in self._nodes if isinstance(node, ast.Expr)}
        # They may be code in C++ or CUDA.
        self._strings = [
            (node.lineno, _remove_comments(node.value))
            for node in self._nodes
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
            if id(node) not in docstrings
        ]
        self._called = {id(node.func) for node in self._nodes if isinstance(node, ast.Call)}
        # Methods of these names may be the submission's own; known once all files were read.
        self.ambiguous: set[str] = set()
        self._kernel_nodes: set[int] = set()
        self.has_kernel = False
        # Imported packages that the screen does not know.
        self.unknown: list[str] = []

    def follow_modules(self) -> None:
        """Follow assignments again, through what other files of the submission import."""
        self._collect_assignments()

    def find_kernels(self) -> None:
        """Find the kernels of this file, and the packages that may define some."""
        functions = [node for node in self._nodes if isinstance(node, ast.FunctionDef)]
        # Inside these, `@` and methods are the kernel's own language.
        self._kernel_nodes = {
            id(inner) for node in functions if self._is_kernel(node) for inner in ast.walk(node)
        }
        self.has_kernel = any(
            path == name or path.startswith(f"{name}.")
            for node in self._nodes
            for path in self._paths(node)
            for name in _KERNELS
        )
        own = {name.partition(".")[0] for name in self._modules}
        roots = {path.partition(".")[0] for path in self.aliases.values()}
        self.unknown = sorted(roots - _KNOWN_ROOTS - own)

    def hits(self) -> Iterator[tuple[int, str]]:
        """Yield each line that uses something forbidden."""
        for line, code in self._strings:
            yield from _native_hits(code, self._rules, line)
        for node in self._nodes:
            for use, entry in self._forbidden_uses(node):
                yield getattr(node, "lineno", 0), _not_allowed(use, entry)

    def doubts(self) -> Iterator[tuple[int, str]]:
        """Yield each line that hides what is called."""
        for line, code in self._strings:
            yield from _native_doubts(code, self._rules, line)
        for line, path in self._stars:
            yield line, f"from {path} import * hides names"
        for node in self._nodes:
            for doubt in self._doubtful_uses(node):
                yield getattr(node, "lineno", 0), doubt

    def _doubtful_uses(self, node: ast.AST) -> Iterator[str]:
        """Yield why what a node uses may be forbidden."""
        for use in self._hiding_uses(node):
            yield f"{use} can hide what is called"
        if (name := self._method(node)) and not self._is_certain(node, name):
            yield f".{name} may be its own or torch's"
        if path := self._unknown_path(node):
            yield f"{path} may be another name of what is not allowed"
        yield from self._substitutes(node)

    def _forbidden_uses(self, node: ast.AST) -> Iterator[tuple[str, str]]:
        """Yield what a node uses, and the entry of the policy that forbids it."""
        if self._is_product(node) and self._rules.operator:
            yield "@", self._rules.operator
        if (name := self._method(node)) and self._is_certain(node, name):
            yield f".{name}", self._rules.methods[name]
        for path in self._paths(node):
            if entry := self._rules.entry_of_path(path):
                yield path, entry

    def _paths(self, node: ast.AST) -> list[str]:
        """Return the dotted paths that a node names."""
        if isinstance(node, ast.Import | ast.ImportFrom):
            return [self._follow(path) for path in _imported(node, self._package).values()]
        is_name = isinstance(node, ast.Attribute | ast.Name | ast.Call)
        return list(filter(None, [self._resolve(node)])) if is_name else []

    def _hiding_uses(self, node: ast.AST) -> Iterator[str]:
        """Yield what a node uses to call something by another name, or where no record looks."""
        if isinstance(node, ast.Import | ast.ImportFrom):
            paths = _imported(node, self._package).values()
            yield from (path for path in paths if path.partition(".")[0] in _HIDING_MODULES)
        elif isinstance(node, ast.Name):
            is_builtin = node.id in _HIDING_CALLS and node.id not in self.aliases
            if (is_builtin and id(node) not in self._literal_getattrs) or node.id in _HIDING_NAMES:
                yield node.id
        elif isinstance(node, ast.Attribute):
            path = self._resolve(node)
            is_unwrapped = self._kernel_nodes and node.attr in _UNWRAPPED_NAMES
            if is_unwrapped or node.attr in _HIDING_NAMES or path in _HIDING_PATHS:
                yield path or node.attr

    def _method(self, node: ast.AST) -> str:
        """Return the forbidden method that a node reads, of a value that no import names."""
        if id(node) in self._kernel_nodes or self._resolve(node):
            return ""
        name = ""
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            name = node.attr
        elif isinstance(node, ast.Call):
            name = _literal_attribute(node) or ""
        return name if name in self._rules.methods else ""

    def _is_certain(self, node: ast.AST, name: str) -> bool:
        """Return whether the method that a node reads is called and must be that of a tensor."""
        return id(node) in self._called and name not in self.ambiguous

    def _substitutes(self, node: ast.AST) -> Iterator[str]:
        """Yield why what a node uses may do forbidden work in another way."""
        for path in self._paths(node):
            entry = self._rules.substituted_entry(path)
            if entry and not self._rules.entry_of_path(path):
                yield describe_substitute(path, entry)
        if not isinstance(node, ast.Attribute) or id(node) in self._kernel_nodes:
            return
        entry = self._rules.substitute_methods.get(node.attr, "")
        is_method = not self._resolve(node) and node.attr not in self._rules.methods
        if entry and is_method and self._is_certain(node, node.attr):
            yield describe_substitute(f".{node.attr}", entry)

    def _unknown_path(self, node: ast.AST) -> str:
        """Return the path of a called function of a library that is named like a forbidden one."""
        path = self._resolve(node) if id(node) in self._called else ""
        if not path.startswith(_ARRAY_LIBRARIES) or path.startswith("torch.ops."):
            return ""
        is_named_so = path.rpartition(".")[2] in self._rules.names
        return path if is_named_so and not self._rules.entry_of_path(path) else ""

    def own_names(self) -> Iterator[str]:
        """Yield the names of functions and attributes that the source itself defines.

        If it compiles a kernel, its strings may define them.
        """
        for node in self._nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node.name
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                yield node.attr
            elif isinstance(node, ast.ClassDef):
                targets = (getattr(item, "target", None) for item in node.body)
                yield from (target.id for target in targets if isinstance(target, ast.Name))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                may_define = self.has_kernel and id(node) not in self._attribute_names
                yield from _WORDS.findall(node.value) if may_define else ()

    def _is_product(self, node: ast.AST) -> bool:
        is_operation = isinstance(node, ast.BinOp | ast.AugAssign)
        if not is_operation or id(node) in self._kernel_nodes:
            return False
        assert isinstance(node, ast.BinOp | ast.AugAssign)
        return isinstance(node.op, ast.MatMult)

    def _resolve(self, node: ast.AST) -> str:
        """Return the dotted path of an imported name, "" for anything else."""
        parts: list[str] = []
        while len(parts) <= _PATH_PARTS_MAX:
            if isinstance(node, ast.Attribute):
                parts.append(node.attr)
                node = node.value
            elif isinstance(node, ast.Call) and (name := _literal_attribute(node)) is not None:
                parts.append(name)
                node = node.args[0]
            else:
                break
        if not isinstance(node, ast.Name) or node.id not in self.aliases:
            return ""
        return _shorten(self._follow(".".join([self.aliases[node.id], *reversed(parts)])))

    def _follow(self, path: str) -> str:
        """Return a path without detours through what the submission's own modules import.

        Where helper.py has `import torch as t`, `helper.t.matmul` is `torch.matmul`.
        """
        for _ in range(FINDINGS_MAX):
            parts = path[:_PATH_CHARS_MAX].split(".")
            for count in range(len(parts) - 1, 0, -1):
                module = self._modules.get(".".join(parts[:count]))
                if module is not None:
                    break
            else:
                return path
            target = module.aliases.get(parts[count])
            if target is None:
                return path
            path = ".".join([target, *parts[count + 1 :]])
        return path

    def _collect_assignments(self) -> None:
        """Follow `name = path`, also where one such name is assigned to another."""
        assignments = [
            (target.id, node.value)
            for node in self._nodes
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and node.value
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
            if isinstance(target, ast.Name)
        ]
        for _ in range(FINDINGS_MAX):
            known = len(self.aliases)
            for name, value in assignments:
                if name not in self.aliases and (path := self._resolve(value)):
                    self.aliases[name] = path
            if len(self.aliases) == known:
                return

    def _is_kernel(self, node: ast.FunctionDef) -> bool:
        decorators = [
            item.func if isinstance(item, ast.Call) else item for item in node.decorator_list
        ]
        paths = [self._resolve(item).split(".") for item in decorators]
        return any(path[0] in _JITS and path[-1] in _JIT_DECORATORS for path in paths)


_KNOWN_ROOTS = {
    *("torch", "numpy", "scipy", "math", "typing", "functools", "itertools", "dataclasses"),
    *("collections", "operator", "os", "sys", "time", "task", "utils", "reference", "warnings"),
    *("__future__", "enum", "abc", "contextlib", "random", "struct", "re", "json", "pathlib"),
    *("triton", "numba", "cupy", "ctypes", "einops", "copy", "logging"),
}


def describe_substitute(use: str, entry: str) -> str:
    """Return the doubt about a function that can do what another one does, which is forbidden."""
    return f"{use} can do the work of {entry}, which is not allowed"


def _not_allowed(use: str, entry: str) -> str:
    return f"{use} is not allowed" if use == entry else f"{use} ({entry} is not allowed)"


def _imported(
    node: ast.Import | ast.ImportFrom, package: str, *, is_bound: bool = False
) -> dict[str, str]:
    """Return the paths that a statement in a package imports, by the names it binds.

    `import a.b` binds `a` if `is_bound`; otherwise the whole path counts as imported.
    """
    paths: dict[str, str] = {}
    for item in node.names:
        if isinstance(node, ast.ImportFrom):
            base = ".".join(package.split(".")[: 1 - node.level or None]) if node.level else ""
            path = ".".join(filter(None, [base, node.module, item.name]))
            paths[item.asname or item.name] = _shorten(path)
        elif item.asname or not is_bound:
            paths[item.asname or item.name] = _shorten(item.name)
        else:
            root = item.name.partition(".")[0]
            paths[root] = root
    return paths


def _shorten(path: str) -> str:
    """Return a path without detours through modules of torch that import torch, and cut if long.

    >>> _shorten("torch.nn.functional.torch.matmul")
    'torch.matmul'
    """
    root = path.rpartition(".torch.")
    return (f"torch.{root[2]}" if path.startswith("torch.") and root[1] else path)[:_PATH_CHARS_MAX]


def _literal_attribute(node: ast.Call) -> str | None:
    """Return the name in `getattr(value, "name")`, None for any other call."""
    is_getattr = isinstance(node.func, ast.Name) and node.func.id == "getattr"
    if not is_getattr or len(node.args) < 2:
        return None
    name = node.args[1]
    if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
        return None
    return name.value
