"""The static screen of a problem's shortcut policy: what a submission's source uses.

It reads the text and runs nothing of it, so a submission cannot forge what it finds. A forbidden
name is a hit, with its line; whatever hides what is called, such as `getattr` of a computed name,
is only a doubt: honest code has it too, so a moderator decides.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from harness.problem import ShortcutPolicy

FINDINGS_MAX = 8
# The same list is in shared/problems/warpboard_yml.py.
LIBRARIES = ("cublas", "cudnn", "cufft", "cusolver", "cusparse", "cutlass")


@dataclass(frozen=True)
class Family:
    """Functions of torch that do the same work, so that forbidding one forbids all.

    `functions` are below `torch`; `methods` are those of tensors, and all names of operators.
    `others` are functions of other modules. `libraries` compute it on a GPU.
    """

    functions: tuple[str, ...]
    methods: tuple[str, ...]
    others: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    has_operator: bool = False


_PRODUCTS = ("matmul", "mm", "bmm", "addmm", "addbmm", "baddbmm", "mv", "addmv", "dot", "vdot")
_CONVOLUTIONS = tuple(f"conv{way}{n}d" for way in ("", "_transpose") for n in (1, 2, 3))
FAMILIES = (
    Family(
        functions=(
            *_PRODUCTS,
            *("inner", "einsum", "tensordot", "chain_matmul", "_scaled_mm", "_grouped_mm"),
            *("linalg.matmul", "linalg.multi_dot", "linalg.vecdot", "bilinear"),
            *("nn.functional.linear", "nn.functional.bilinear", "nn.Linear", "nn.Bilinear"),
        ),
        methods=(
            *_PRODUCTS,
            *(f"{name}_" for name in ("addmm", "addbmm", "baddbmm", "addmv")),
            *("inner", "linear", "_addmm_activation", "_scaled_mm", "_grouped_mm", "_int_mm"),
            *("__matmul__", "__rmatmul__", "__imatmul__"),
        ),
        others=(
            *("numpy.matmul", "numpy.dot", "numpy.einsum", "numpy.inner", "numpy.tensordot"),
            *("operator.matmul", "operator.imatmul", "cupy.matmul", "cupy.dot"),
            *("scipy.linalg.blas", "scipy.linalg.cython_blas"),
        ),
        libraries=("cublas",),
        has_operator=True,
    ),
    Family(
        functions=(
            *_CONVOLUTIONS,
            *(f"nn.functional.{name}" for name in _CONVOLUTIONS),
            *(f"nn.Conv{way}{n}d" for way in ("", "Transpose") for n in (1, 2, 3)),
            *("convolution", "cudnn_convolution"),
        ),
        methods=("convolution", "_convolution", "cudnn_convolution", "mkldnn_convolution"),
        libraries=("cudnn",),
    ),
    Family(
        functions=("nn.functional.scaled_dot_product_attention", "nn.MultiheadAttention"),
        methods=(
            *("scaled_dot_product_attention", "_scaled_dot_product_flash_attention"),
            *("_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention"),
            "_scaled_dot_product_flash_attention_for_cpu",
        ),
    ),
    Family(
        functions=("softmax", "nn.functional.softmax", "nn.Softmax", "special.softmax"),
        methods=("softmax", "_softmax"),
    ),
    Family(
        functions=("sort", "argsort", "msort", "topk", "unique"),
        methods=("sort", "argsort", "msort", "topk", "unique", "_unique2"),
    ),
)

# What a forbidden library looks like in C++ and CUDA, also within a string of Python, and the
# modules of Python that call it. Plain words, as in a message, are no use of it.
_CALLS = r"#\s*include\s*[<\"]{0}|\b{0}[A-Z_]\w*\s*[({{<;]|-l{0}\b|\blib{0}\w*\.so"
_MODULES: Mapping[str, tuple[str, ...]] = {
    "cublas": ("cupy.cublas", "nvmath.linalg", "nvidia.cublas"),
    "cudnn": ("cudnn", "nvidia.cudnn"),
    "cufft": ("torch.fft", "cupy.fft", "nvmath.fft"),
    "cusolver": ("cupy.cusolver", "cupyx.cusolver"),
    "cusparse": ("cupy.cusparse", "cupyx.cusparse", "torch.sparse"),
    "cutlass": ("cutlass", "cutlass_library"),
}
_CUTLASS = re.compile(r"#\s*include\s*[<\"](?:cutlass|cute)/|\b(?:cutlass|cute)::")

# What defines a kernel in Python: names that a decorator or a call resolves to.
_KERNELS = (
    *("triton.jit", "numba.cuda.jit", "numba.njit", "numba.jit", "cutlass.cute.kernel"),
    *("torch.utils.cpp_extension", "torch.cuda._compile_kernel", "torch.cuda.jiterator"),
    *("cupy.RawKernel", "cupy.RawModule", "cupy.ElementwiseKernel", "tilelang.jit"),
    *("ctypes.CDLL", "cffi.FFI", "cuda.bindings.nvrtc"),
)
_JITS = ("triton", "numba", "cutlass", "tilelang")

# Through these a program calls what its text does not name, or where no record looks.
_HIDING_CALLS = ("getattr", "eval", "exec", "compile", "__import__", "globals", "locals", "vars")
_HIDING_MODULES = (
    *("importlib", "ctypes", "cffi", "pickle", "marshal", "base64", "zlib", "codecs", "inspect"),
    *("gc", "threading", "concurrent", "multiprocessing", "subprocess", "runpy", "types"),
)
_HIDING_NAMES = ("__dict__", "__getattribute__", "__builtins__", "__globals__", "__subclasses__")
_HIDING_PATHS = ("sys.modules", "operator.attrgetter", "operator.methodcaller", "torch._C")

# A method that these have too proves nothing by its name.
_PLAIN_TYPES = (list, dict, set, str, bytes)

_COMMENTS = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


@dataclass(frozen=True)
class Screening:
    """What a screen found: `hits` are certain, `doubts` need a moderator. Each names its line."""

    hits: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)


class Rules:
    """A policy as the names to look for; each maps to the entry of `forbid` that it falls under."""

    def __init__(self, policy: ShortcutPolicy) -> None:
        self.requires_own_kernel = policy.own_kernel == "required"
        self.libraries = [name for name in policy.forbid if name in LIBRARIES]
        self.paths: dict[str, str] = {}
        self.methods: dict[str, str] = {}
        self.operator = ""
        for name in policy.forbid:
            if name in LIBRARIES:
                for family in FAMILIES:
                    if name in family.libraries:
                        self._add(family, f"{name}, which it calls")
                self.paths |= dict.fromkeys(_MODULES[name], name)
                continue
            path = name.removeprefix("torch.")
            last = path.rpartition(".")[2]
            matching = [item for item in FAMILIES if path in item.functions]
            alone = Family((path, f"{path}_"), (last, f"{last}_", f"_{last}"))
            for family in matching or [alone]:
                self._add(family, name)

    def _add(self, family: Family, entry: str) -> None:
        for path in family.functions:
            self.paths.setdefault(f"torch.{path}", entry)
            self.paths.setdefault(f"torch.Tensor.{path}", entry)
        for path in family.others:
            self.paths.setdefault(path, entry)
        for name in family.methods:
            self.methods.setdefault(name, entry)
            self.paths.setdefault(f"torch.Tensor.{name}", entry)
            self.paths.setdefault(f"torch.ops.aten.{name}", entry)
        if family.has_operator:
            self.operator = self.operator or entry

    def entry_of_path(self, path: str) -> str:
        """Return the entry that a dotted name falls under, "" if it is allowed."""
        while path:
            if path in self.paths:
                return self.paths[path]
            path = path.rpartition(".")[0]
        return ""


def screen_source(source: bytes, policy: ShortcutPolicy, *, is_python: bool) -> Screening:
    """Return what a submission's source shows under a policy; nothing without a policy."""
    if policy.is_empty:
        return Screening()
    rules, text = Rules(policy), source.decode(errors="replace")
    if not is_python:
        # The whole file is the participant's kernel.
        return Screening(list(_limit(_native_hits(text, rules, 1))))
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # If Python itself can load it, a moderator must read it.
        return Screening(doubts=["the source cannot be parsed by the screen"])
    screen = _PythonScreen(tree, rules)
    return Screening(list(_limit(screen.hits())), list(_limit(screen.doubts())))


def _limit(findings: Iterable[tuple[int, str]]) -> Iterator[str]:
    """Yield the first findings in the order of the file, each line and text once."""
    unique = sorted(set(findings))
    for line, text in unique[:FINDINGS_MAX]:
        yield f"line {line}: {text}" if line else text
    if len(unique) > FINDINGS_MAX:
        yield f"and {len(unique) - FINDINGS_MAX} more"


def _native_hits(text: str, rules: Rules, first_line: int) -> Iterator[tuple[int, str]]:
    """Yield the uses of forbidden libraries and functions in C++ or CUDA."""
    code = _COMMENTS.sub(lambda match: "\n" * match[0].count("\n"), text)
    patterns = [
        (library, _CUTLASS if library == "cutlass" else re.compile(_CALLS.format(library)))
        for library in rules.libraries
    ]
    names = "|".join(map(re.escape, sorted(rules.methods)))
    if names:
        patterns.append(("", re.compile(rf"\b(?:at|torch)::(?:native::)?({names})\s*\(")))
    for library, pattern in patterns:
        for match in pattern.finditer(code):
            line = first_line + code.count("\n", 0, match.start())
            use = " ".join(match[0].split())[:60].rstrip("({<; ")
            yield line, f"{use} ({library or rules.methods[match[1]]} is not allowed)"


class _PythonScreen:
    """The names that a module of Python uses, resolved through its imports and assignments."""

    def __init__(self, tree: ast.Module, rules: Rules) -> None:
        self._rules = rules
        self._nodes = list(ast.walk(tree))
        self._aliases: dict[str, str] = {}
        self._stars: list[tuple[int, str]] = []
        for node in self._nodes:
            if isinstance(node, ast.Import | ast.ImportFrom):
                self._aliases |= _imported(node, is_bound=True)
                if any(item.name == "*" for item in node.names):
                    self._stars.append((node.lineno, getattr(node, "module", "") or "."))
        self._collect_assignments()
        functions = [node for node in self._nodes if isinstance(node, ast.FunctionDef)]
        self._ambiguous = {node.name for node in functions} | {
            name for kind in _PLAIN_TYPES for name in dir(kind)
        }
        # The name `getattr` of calls whose attribute is a literal, which hides nothing.
        self._literal_getattrs = {
            id(node.func)
            for node in self._nodes
            if isinstance(node, ast.Call) and _literal_attribute(node) is not None
        }
        # Inside these, `@` and methods are the kernel's own language.
        self._kernel_nodes = {
            id(inner) for node in functions if self._is_kernel(node) for inner in ast.walk(node)
        }
        self._docstrings = {id(node.value) for node in self._nodes if isinstance(node, ast.Expr)}
        self._has_kernel = any(
            path == name or path.startswith(f"{name}.")
            for node in self._nodes
            for path in self._paths(node)
            for name in _KERNELS
        )
        roots = {path.partition(".")[0] for path in self._aliases.values()}
        # Imported packages that the screen does not know.
        self._unknown = sorted(roots - _KNOWN_ROOTS)

    def hits(self) -> Iterator[tuple[int, str]]:
        """Yield each line that uses something forbidden."""
        for node in self._nodes:
            line = getattr(node, "lineno", 0)
            if isinstance(node, ast.Constant) and id(node) not in self._docstrings:
                if isinstance(node.value, str):
                    yield from _native_hits(node.value, self._rules, line)
                continue
            for use, entry in self._forbidden_uses(node):
                reason = "is not allowed" if use == entry else f"({entry} is not allowed)"
                yield line, f"{use} {reason}"
        if self._rules.requires_own_kernel and not self._has_kernel and not self._unknown:
            yield 0, "it defines no kernel of its own, which the problem requires"

    def doubts(self) -> Iterator[tuple[int, str]]:
        """Yield each line that hides what is called."""
        for line, path in self._stars:
            yield line, f"from {path} import * hides names"
        for node in self._nodes:
            line = getattr(node, "lineno", 0)
            for use in self._hiding_uses(node):
                yield line, f"{use} can hide what is called"
            if (name := self._method(node)) in self._ambiguous:
                yield line, f".{name} may be its own method or torch's"
        if self._rules.requires_own_kernel and not self._has_kernel:
            for path in self._unknown:
                yield 0, f"no kernel of its own was recognised; {path} may define one"

    def _forbidden_uses(self, node: ast.AST) -> Iterator[tuple[str, str]]:
        """Yield what a node uses, and the entry of the policy that forbids it."""
        if self._is_product(node) and self._rules.operator:
            yield "@", self._rules.operator
        if (name := self._method(node)) and name not in self._ambiguous:
            yield f".{name}", self._rules.methods[name]
        for path in self._paths(node):
            if entry := self._rules.entry_of_path(path):
                yield path, entry

    def _paths(self, node: ast.AST) -> list[str]:
        """Return the dotted paths that a node names."""
        if isinstance(node, ast.Import | ast.ImportFrom):
            return list(_imported(node).values())
        is_name = isinstance(node, ast.Attribute | ast.Name | ast.Call)
        return list(filter(None, [self._resolve(node)])) if is_name else []

    def _hiding_uses(self, node: ast.AST) -> Iterator[str]:
        """Yield what a node uses to call something by another name, or where no record looks."""
        if isinstance(node, ast.Import | ast.ImportFrom):
            paths = _imported(node).values()
            yield from (path for path in paths if path.partition(".")[0] in _HIDING_MODULES)
        elif isinstance(node, ast.Name):
            is_builtin = node.id in _HIDING_CALLS and node.id not in self._aliases
            if (is_builtin and id(node) not in self._literal_getattrs) or node.id in _HIDING_NAMES:
                yield node.id
        elif isinstance(node, ast.Attribute):
            path = self._resolve(node)
            if node.attr in _HIDING_NAMES or path in _HIDING_PATHS:
                yield path or node.attr

    def _method(self, node: ast.AST) -> str:
        """Return the forbidden method that a node names, of a value that the text does not."""
        is_attribute = isinstance(node, ast.Attribute) and id(node) not in self._kernel_nodes
        if not is_attribute or self._resolve(node):
            return ""
        assert isinstance(node, ast.Attribute)
        return node.attr if node.attr in self._rules.methods else ""

    def _is_product(self, node: ast.AST) -> bool:
        is_operation = isinstance(node, ast.BinOp | ast.AugAssign)
        if not is_operation or id(node) in self._kernel_nodes:
            return False
        assert isinstance(node, ast.BinOp | ast.AugAssign)
        return isinstance(node.op, ast.MatMult)

    def _resolve(self, node: ast.AST) -> str:
        """Return the dotted path of an imported name, "" for anything else."""
        parts: list[str] = []
        while True:
            if isinstance(node, ast.Attribute):
                parts.append(node.attr)
                node = node.value
            elif isinstance(node, ast.Call) and (name := _literal_attribute(node)) is not None:
                parts.append(name)
                node = node.args[0]
            else:
                break
        if not isinstance(node, ast.Name) or node.id not in self._aliases:
            return ""
        return ".".join([self._aliases[node.id], *reversed(parts)])

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
            known = len(self._aliases)
            for name, value in assignments:
                if name not in self._aliases and (path := self._resolve(value)):
                    self._aliases[name] = path
            if len(self._aliases) == known:
                return

    def _is_kernel(self, node: ast.FunctionDef) -> bool:
        decorators = [
            item.func if isinstance(item, ast.Call) else item for item in node.decorator_list
        ]
        return any(self._resolve(item).partition(".")[0] in _JITS for item in decorators)


_KNOWN_ROOTS = {
    *("torch", "numpy", "scipy", "math", "typing", "functools", "itertools", "dataclasses"),
    *("collections", "operator", "os", "sys", "time", "task", "utils", "reference", "warnings"),
    *("__future__", "enum", "abc", "contextlib", "random", "struct", "re", "json", "pathlib"),
    *("triton", "numba", "cupy", "ctypes", "einops", "copy", "logging"),
}


def _imported(node: ast.Import | ast.ImportFrom, *, is_bound: bool = False) -> dict[str, str]:
    """Return the paths that a statement imports, by the names it binds.

    `import a.b` binds `a` if `is_bound`; otherwise the whole path counts as imported.
    """
    paths: dict[str, str] = {}
    for item in node.names:
        if isinstance(node, ast.ImportFrom):
            paths[item.asname or item.name] = f"{node.module or ''}.{item.name}".strip(".")
        elif item.asname or not is_bound:
            paths[item.asname or item.name] = item.name
        else:
            root = item.name.partition(".")[0]
            paths[root] = root
    return paths


def _literal_attribute(node: ast.Call) -> str | None:
    """Return the name in `getattr(value, "name")`, None for any other call."""
    is_getattr = isinstance(node.func, ast.Name) and node.func.id == "getattr"
    if not is_getattr or len(node.args) < 2:
        return None
    name = node.args[1]
    if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
        return None
    return name.value
