"""FlashInfer-Trace and SOL-ExecBench: definitions and workloads as they are written, checked.

Source: the documents of the public packages flashinfer-bench and sol-execbench. A set of the first
has its workloads in lines of a trace, `{"workload": {...}}`; one of the second has them flat, each
with a tolerance of its own.
"""

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Annotated, Literal

from pydantic import Field

from shared.problems.document import (
    StrictModel,
    bad_problem,
    quote_value,
    validate_document,
)
from shared.problems.flashinfer_solutions import Name, parse_json
from shared.problems.sources import UP, normalize_path, read_module

DEFINITION, WORKLOADS, FLAT_WORKLOADS = "definition.json", "workloads.jsonl", "workload.jsonl"
# Those of the first format, and of the second.
WORKLOAD_FILES = (WORKLOADS, FLAT_WORKLOADS)
WORKLOADS_MAX = 60
AXIS_MAX = 2**31
EXPRESSION_CHARS_MAX, EXPONENT_MAX = 200, 64
RUN = "run"
# The names of dtypes in torch and in safetensors, and bytes per element.
DTYPES: Mapping[str, tuple[str, str, int]] = {
    "float64": ("float64", "F64", 8),
    "float32": ("float32", "F32", 4),
    "float16": ("float16", "F16", 2),
    "bfloat16": ("bfloat16", "BF16", 2),
    "float8_e4m3": ("float8_e4m3fn", "F8_E4M3", 1),
    "float8_e4m3fn": ("float8_e4m3fn", "F8_E4M3", 1),
    "float8_e5m2": ("float8_e5m2", "F8_E5M2", 1),
    "int64": ("int64", "I64", 8),
    "int32": ("int32", "I32", 4),
    "int16": ("int16", "I16", 2),
    "int8": ("int8", "I8", 1),
    "bool": ("bool", "BOOL", 1),
}
_OPERATORS: Mapping[type[ast.AST], Callable[..., float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}
Size = Annotated[int, Field(ge=0, le=AXIS_MAX)]


class Axis(StrictModel):
    """A dimension: a constant, one that each workload gives, or an expression of others."""

    type: Literal["const", "var", "expr"]
    value: Annotated[int | None, Field(ge=1, le=AXIS_MAX)] = None
    expression: Annotated[str | None, Field(max_length=EXPRESSION_CHARS_MAX)] = None
    description: str | None = None


class TensorSpec(StrictModel):
    """A tensor by its axes, or a plain number if the shape is null."""

    shape: list[str] | None
    dtype: str
    description: str | None = None


class Definition(StrictModel):
    """What is computed: tensors by name, and the reference as Python.

    `custom_inputs_entrypoint` names the function of the reference that makes custom inputs. The
    keys `op_type`, `tags`, `constraints` and `hf_id` describe a definition and change nothing.
    """

    name: Name
    description: str | None = None
    op_type: str | None = None
    tags: list[str] | None = None
    constraints: list[str] | None = None
    hf_id: str | None = None
    axes: dict[str, Axis]
    inputs: Annotated[dict[str, TensorSpec], Field(min_length=1)]
    outputs: Annotated[dict[str, TensorSpec], Field(min_length=1)]
    reference: str
    custom_inputs_entrypoint: str | None = None


class InputSource(StrictModel):
    """Where the value of an input comes from."""

    type: Literal["random", "scalar", "safetensors", "custom"]
    value: bool | int | float | None = None
    path: str = ""
    tensor_key: str = ""


class Tolerance(StrictModel):
    """How close an answer is: the share of elements within both bounds, and the largest error."""

    max_atol: Annotated[float, Field(ge=0)] = 1e-2
    max_rtol: Annotated[float, Field(ge=0)] = 1e-2
    required_matched_ratio: Annotated[float, Field(gt=0, le=1)] = 0.99
    max_error_cap: Annotated[float | None, Field(ge=0)] = None
    allow_negative_inf: bool = False


class Workload(StrictModel):
    """The sizes of the variable axes, the source of each input, and how close an answer must be."""

    uuid: Name
    axes: dict[str, Size]
    inputs: dict[str, InputSource]
    tolerance: Tolerance | None = None


class WorkloadLine(StrictModel):
    """A line of a trace that has a workload and no solution."""

    workload: Workload
    definition: str | None = None
    solution: None = None
    evaluation: None = None


def read_schema(data: bytes) -> Definition:
    """Read a definition. Errors: Refused `bad_problem`, naming what is wrong."""
    definition = validate_document(parse_json(DEFINITION, data), Definition)
    for reason in _definition_faults(definition):
        raise bad_problem(f"{DEFINITION}: {reason}", DEFINITION)
    return definition


def read_workloads(data: bytes) -> list[Workload]:
    """Read a file of workloads, a JSON object in each line. Errors: Refused `bad_problem`."""
    workloads = []
    for number, line in enumerate(data.splitlines(), 1):
        if line.strip():
            workloads.append(_read_workload(f"{WORKLOADS}, line {number}", line))
    if not 0 < len(workloads) <= WORKLOADS_MAX:
        reason = f"{WORKLOADS} has {len(workloads)} workloads: 1 to {WORKLOADS_MAX} are possible"
        raise bad_problem(reason, WORKLOADS)
    uuids = [workload.uuid for workload in workloads]
    if len(set(uuids)) < len(uuids):
        raise bad_problem(f"{WORKLOADS}: two workloads have one uuid: change one", WORKLOADS)
    return workloads


def _read_workload(name: str, line: bytes) -> Workload:
    document = parse_json(name, line)
    if isinstance(document.value, dict) and "workload" in document.value:
        return validate_document(document, WorkloadLine).workload
    workload = validate_document(document, Workload)
    # Without one, a flat workload has the defaults of its format.
    return (
        workload if workload.tolerance else workload.model_copy(update={"tolerance": Tolerance()})
    )


def tensor_paths(workloads: list[Workload]) -> list[str]:
    """Return the safetensors files that workloads name, relative to the root of their set.

    Errors: Refused `bad_problem` for a path that leaves the set.
    """
    sources = [source for workload in workloads for source in workload.inputs.values()]
    paths = {source.path for source in sources if source.type == "safetensors"}
    normalized = {path: normalize_path(path) or "" for path in paths}
    for path, normal in normalized.items():
        if not normal or normal.startswith(UP):
            raise bad_problem(f"{WORKLOADS}: {quote_value(path)} is outside the set", WORKLOADS)
    return sorted(set(normalized.values()))


def resolve_axes(definition: Definition, workload: Workload) -> dict[str, int]:
    """Return the size of each axis in a workload. Raises ValueError, naming the axis."""
    sizes: dict[str, int] = {}
    for name, axis in definition.axes.items():
        if axis.type == "const" and axis.value is not None:
            sizes[name] = axis.value
        elif axis.type == "var" and name in workload.axes:
            sizes[name] = workload.axes[name]
        elif axis.type == "var":
            raise ValueError(f"gives no size for axis {quote_value(name)}")
    for name, axis in definition.axes.items():
        if axis.type == "expr":
            sizes[name] = _evaluate(name, axis.expression or "", sizes)
    return sizes


def _evaluate(name: str, expression: str, sizes: Mapping[str, int]) -> int:
    """Return the value of an arithmetic expression over axes. Raises ValueError."""
    try:
        value = _evaluate_node(ast.parse(expression, mode="eval").body, sizes)
    except (SyntaxError, ArithmeticError, MemoryError, RecursionError, TypeError) as error:
        reason = f"cannot compute axis {quote_value(name)} = {quote_value(expression)}: {error}"
        raise ValueError(reason) from error
    if value != int(value):
        raise ValueError(f"axis {quote_value(name)} = {quote_value(expression)} is {value}")
    return int(value)


def _evaluate_node(node: ast.expr, sizes: Mapping[str, int]) -> float:
    match node:
        case ast.Constant(value=int() | float() as value):
            result: float = value
        case ast.Name(id=name) if name in sizes:
            result = sizes[name]
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _OPERATORS:
            result = _OPERATORS[type(op)](_evaluate_node(operand, sizes))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            operands = _evaluate_node(left, sizes), _evaluate_node(right, sizes)
            if isinstance(op, ast.Pow) and abs(operands[1]) > EXPONENT_MAX:
                raise ArithmeticError(f"an exponent is at most {EXPONENT_MAX}")
            result = _OPERATORS[type(op)](*operands)
        case _:
            expected = "numbers, axes before it and + - * / // % **"
            raise TypeError(f"{quote_value(ast.unparse(node))} is none of {expected}")
    # Also bounds the work of the next step.
    if isinstance(result, complex) or not abs(result) <= AXIS_MAX:
        raise ArithmeticError(f"a size is at most {AXIS_MAX}")
    return result


def _definition_faults(definition: Definition) -> list[str]:
    module = read_module(f"the reference of {DEFINITION}", definition.reference.encode())
    names = [RUN, definition.custom_inputs_entrypoint or RUN]
    reasons = [f"its reference does not define {name}" for name in names if not module.has(name)]
    specs = {**definition.inputs, **definition.outputs}
    for name, axis in definition.axes.items():
        if axis.type == "const" and axis.value is None:
            reasons.append(f"the constant axis {quote_value(name)} has no value")
        if axis.type == "expr" and not axis.expression:
            reasons.append(f"the axis {quote_value(name)} has no expression")
    reasons += [
        f"{quote_value(name)} has dtype {quote_value(spec.dtype)}: there are {', '.join(DTYPES)}"
        for name, spec in specs.items()
        if spec.dtype not in DTYPES
    ]
    reasons += [
        f"{quote_value(name)} has the unknown axis {quote_value(axis)}"
        for name, spec in specs.items()
        for axis in spec.shape or ()
        if axis not in definition.axes
    ]
    reasons += [
        f"the output {quote_value(name)} is a plain number: only tensors are possible"
        for name, spec in definition.outputs.items()
        if spec.shape is None
    ]
    return reasons


def scalar_values(workload: Workload) -> dict[str, bool | int | float]:
    """Return the finite scalars of a workload by the name of their input."""
    return {
        name: source.value
        for name, source in workload.inputs.items()
        if source.type == "scalar" and source.value is not None and math.isfinite(source.value)
    }
