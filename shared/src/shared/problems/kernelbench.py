"""KernelBench's models: the sizes that a processor can bear, and the baselines of a model.

A size is a whole number over 16 that a file assigns to a name at its top level, alone or in a
tuple. For the cpu device all sizes are divided by one power of two and rounded up, but not below
16. The power is the smallest with which the inputs have at most 2**18 elements together, or with
which nothing shrinks any more. The text is parsed and never run.

A check of a problem also tries smaller models than those that are published. There, numbers over 16
in `get_inputs` and `get_init_inputs` are sizes, too.
"""

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from shared.problems.goals import BaselineYml

ELEMENTS_MAX = 2**18
SIZE_MIN = 16
# The model for the cpu device, among the files of a version.
REFERENCE_CPU = "reference_cpu.py"
EAGER, COMPILE = "eager", "compile"
BASELINES = (
    BaselineYml(
        name=EAGER, file="baselines/kernelbench_eager.py", note="the model, operation by operation"
    ),
    BaselineYml(
        name=COMPILE, file="baselines/kernelbench_compile.py", note="the model by torch.compile"
    ),
)
# torch.compile needs more time than an import usually gets.
BUILD_S = 300

AS_ANSWER = b"\n\nModelNew = Model\n"
_AS_COMPILED_ANSWER = b"""

import torch._inductor.config

# Random numbers are those of the model.
torch._inductor.config.fallback_random = True


class ModelNew(Model):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.compiled = torch.compile(super().forward)

    def forward(self, *inputs):
        return self.compiled(*inputs)
"""
_INPUTS = "get_inputs"
_FUNCTIONS = (_INPUTS, "get_init_inputs")
# Functions of torch whose arguments are sizes; of all others only a tuple is a shape.
_BY_SIZES = ("rand", "randn", "empty", "zeros", "ones")
_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}
# No tensor has so many elements; a product of sizes stops there.
_VALUE_MAX = 2**62

Value = int | tuple[int, ...]


def baseline_files(source: bytes) -> dict[str, bytes]:
    """Return the text of each baseline of a model."""
    eager, compiled = (baseline.file for baseline in BASELINES)
    return {eager: source + AS_ANSWER, compiled: source + b"\nimport torch\n" + _AS_COMPILED_ANSWER}


def reduce_sizes(source: bytes) -> bytes:
    """Return a model's file with the sizes for the cpu device; unchanged if they are small enough.

    >>> reduce_sizes(b"N = 2 * 4096\\ndef get_inputs(): return torch.rand(N, N)")
    b'N = 512\\ndef get_inputs(): return torch.rand(N, N)'
    """
    tree = _parse(source)
    sizes = list(_find_sizes(tree))
    return _replace_sizes(source, sizes, _find_factor(tree, sizes))


def size_factor(source: bytes) -> int:
    """Return by which power of two all sizes are divided so that a processor can bear them.

    >>> size_factor(b"def get_inputs(): return torch.rand(4096, 256)")
    2
    """
    tree = _parse(source)
    return _find_factor(tree, [*_find_sizes(tree), *_find_literals(tree)])


def divide_sizes(source: bytes, factor: int) -> bytes:
    """Return a model's file with all sizes divided by a power of two.

    >>> divide_sizes(b"N = 64\\ndef get_inputs(): return torch.rand(N, 4096)", 2)
    b'N = 32\\ndef get_inputs(): return torch.rand(N, 2048)'
    """
    tree = _parse(source)
    return _replace_sizes(source, [*_find_sizes(tree), *_find_literals(tree)], factor)


def _parse(source: bytes) -> ast.Module:
    """Parse a file; one that cannot be parsed has no sizes."""
    try:
        return ast.parse(source)
    except (MemoryError, RecursionError, SyntaxError, ValueError):
        return ast.Module([], [])


def _find_factor(tree: ast.Module, sizes: "list[_Size]") -> int:
    factor = 1
    while _count_elements(tree, sizes, factor) > ELEMENTS_MAX:
        if all(size.reduced(factor) <= SIZE_MIN for size in sizes):
            break
        factor *= 2
    return factor


class _Size(NamedTuple):
    """A size and the expression that it is written as."""

    node: ast.expr
    value: int

    def reduced(self, factor: int) -> int:
        return max(SIZE_MIN, -(-self.value // factor))


def _find_sizes(tree: ast.Module) -> Iterator[_Size]:
    for node in tree.body:
        if not isinstance(node, ast.Assign):
            continue
        parts = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
        for part in parts:
            value = _Evaluator({}).value(part)
            if isinstance(value, int) and value > SIZE_MIN:
                yield _Size(part, value)


def _find_literals(tree: ast.Module) -> Iterator[_Size]:
    """Yield the sizes that the functions of inputs write as numbers."""
    for function in tree.body:
        if isinstance(function, ast.FunctionDef) and function.name in _FUNCTIONS:
            for node in ast.walk(function):
                if not isinstance(node, ast.Constant) or type(node.value) is not int:
                    continue
                if node.value > SIZE_MIN:
                    yield _Size(node, node.value)


def _count_elements(tree: ast.Module, sizes: list[_Size], factor: int) -> int:
    """Return how many elements the inputs have in all, as far as the text tells."""
    evaluator = _Evaluator({id(size.node): size.reduced(factor) for size in sizes})
    count = 0
    for node in tree.body:
        if isinstance(node, ast.Assign):
            evaluator.assign(node)
        elif isinstance(node, ast.FunctionDef) and node.name == _INPUTS:
            calls = [inner for inner in ast.walk(node) if isinstance(inner, ast.Call)]
            count += sum(evaluator.elements(call) for call in calls)
    return count


class _Evaluator:
    """Evaluates whole numbers and tuples of them; `values` replaces expressions, by identity."""

    def __init__(self, values: Mapping[int, int]) -> None:
        self._values = values
        self._names: dict[str, Value] = {}

    def assign(self, node: ast.Assign) -> None:
        """Remember the names that a statement defines."""
        value = self.value(node.value)
        for target in node.targets:
            if isinstance(target, ast.Name) and value is not None:
                self._names[target.id] = value
            elif isinstance(target, ast.Tuple) and isinstance(value, tuple):
                names = [name.id for name in target.elts if isinstance(name, ast.Name)]
                if len(names) == len(value):
                    self._names.update(zip(names, value, strict=True))

    def value(self, node: ast.expr) -> Value | None:
        """Return the value of an expression; None if it is another one."""
        if (replaced := self._values.get(id(node))) is not None:
            return replaced
        match node:
            case ast.Constant(value=int() as number) if not isinstance(number, bool):
                return number
            case ast.Name(id=name):
                return self._names.get(name)
            case ast.Tuple(elts=parts):
                return self._shape(parts)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                return self._combine(type(op), self.value(left), self.value(right))
        return None

    def _combine(self, op: type[ast.operator], left: Any, right: Any) -> int | None:
        if not isinstance(left, int) or not isinstance(right, int):
            return None
        if max(abs(left), abs(right)) > _VALUE_MAX or (op is ast.FloorDiv and not right):
            return None
        return _OPERATORS[op](left, right)

    def _shape(self, parts: list[ast.expr]) -> tuple[int, ...] | None:
        shape: list[int] = []
        for part in parts:
            value = self.value(part.value if isinstance(part, ast.Starred) else part)
            if value is None:
                return None
            shape += value if isinstance(value, tuple) else (value,)
        return tuple(shape)

    def elements(self, call: ast.Call) -> int:
        """Return how many elements a tensor has that a function of torch makes; 0 for others."""
        if not isinstance(call.func, ast.Attribute):
            return 0
        shapes = [value for part in call.args if isinstance(value := self.value(part), tuple)]
        shape = shapes[0] if shapes else None
        if shape is None and call.func.attr in _BY_SIZES:
            shape = self._shape(call.args)
        count = 1 if shape else 0
        for size in shape or ():
            count = min(count * size, _VALUE_MAX)
        return count


def _replace_sizes(source: bytes, sizes: list[_Size], factor: int) -> bytes:
    lines = source.splitlines(keepends=True)
    for size in sorted(
        sizes, key=lambda size: (size.node.lineno, size.node.col_offset), reverse=True
    ):
        node, reduced = size.node, size.reduced(factor)
        if reduced != size.value and node.lineno == node.end_lineno:
            line = lines[node.lineno - 1]
            end = line[node.end_col_offset :]
            lines[node.lineno - 1] = line[: node.col_offset] + str(reduced).encode() + end
    return b"".join(lines)
