"""The minimum work of a problem's timed cases, and how close a time comes to a GPU's limits.

Its formulas are arithmetic over the arguments of a case: parsed, never executed.
"""

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from math import ceil, isfinite
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from harness.gpus import GpuSpec, find_gpu_spec, gpu_specs
from harness.hidden_sizes import hidden_case_name
from shared.problems.document import Document, StrictModel
from shared.problems.task_yml import Case

FORMULA_CHARS_MAX = 200
# No machine could move so many bytes, or do so many operations, in a day.
VALUE_MAX = 1e24

Value = float | Sequence[float]


class FormulaError(Exception):
    """What is wrong with a formula, as the predicate of a sentence ("has 300 characters")."""


def evaluate_formula(text: str, args: Mapping[str, Any]) -> float:
    """Evaluate a formula for a case; the result is finite and at least 0. Errors: FormulaError.

    Formulas consist of numbers, arguments by name, + - * / // **, parentheses, and the functions
    min, max, ceil, len and sum. All values are floats from the first step, so nothing grows large.

    >>> evaluate_formula("4 * (2 * m * k + len(sizes))", {"m": 3, "k": 5, "sizes": [1, 2]})
    128.0
    """
    if len(text) > FORMULA_CHARS_MAX:
        raise FormulaError(f"has {len(text)} characters: at most {FORMULA_CHARS_MAX}")
    try:
        tree = ast.parse(text.strip(), mode="eval")
        result = _Evaluator(args).number(tree.body)
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise FormulaError("is not arithmetic: write it like 3*2*size*size") from error
    if result < 0:
        raise FormulaError(f"is {result:g}: it must be at least 0")
    return result


class _Evaluator:
    """Evaluates a parsed formula; unknown syntax is refused."""

    def __init__(self, args: Mapping[str, Any]) -> None:
        self._args = args

    def number(self, node: ast.expr) -> float:
        result = self._value(node)
        if not isinstance(result, float):
            raise FormulaError(f"uses {ast.unparse(node)!r} as a number: it is a list")
        return result

    def _value(self, node: ast.expr) -> Value:
        match node:
            case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
                return _to_number(number)
            case ast.Name(id=name):
                return self._argument(name)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=operand):
                number = self.number(operand)
                return -number if isinstance(sign, ast.USub) else number
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                try:
                    apply = _OPERATORS[type(op)]
                    return _to_number(apply(self.number(left), self.number(right)))
                except ZeroDivisionError as error:
                    raise FormulaError("divides by 0") from error
                except OverflowError as error:
                    raise FormulaError(_TOO_LARGE) from error
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
                return self._call_function(name, args)
        reason = "numbers, arguments, + - * / // **, min, max, ceil, len and sum"
        raise FormulaError(f"has {ast.unparse(node)!r}, which is not one of {reason}")

    def _argument(self, name: str) -> Value:
        if name not in self._args:
            similar = get_close_matches(name, self._args, 1)
            known = ", ".join(self._args) or "none"
            fix = f"did you mean {similar[0]!r}?" if similar else f"the arguments are: {known}"
            raise FormulaError(f"names {name!r}, which the case does not have: {fix}")
        argument = self._args[name]
        if isinstance(argument, list):
            return [_argument_number(name, item) for item in argument]
        return _argument_number(name, argument)

    def _call_function(self, name: str, args: Sequence[ast.expr]) -> float:
        if name not in _FUNCTIONS:
            known = ", ".join(_FUNCTIONS)
            raise FormulaError(f"calls {name!r}: there are {known}")
        try:
            return _to_number(_FUNCTIONS[name](*map(self._value, args)))
        except (TypeError, ValueError) as error:
            raise FormulaError(f"calls {name}() with arguments it does not take") from error


_TOO_LARGE = f"exceeds {VALUE_MAX:g}"
_OPERATORS: Mapping[type[ast.operator], Callable[[float, float], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
}
_FUNCTIONS: Mapping[str, Callable[..., float]] = {
    function.__name__: function for function in (min, max, ceil, len, sum)
}


def _argument_number(name: str, argument: object) -> float:
    if isinstance(argument, bool | int | float):
        return _to_number(argument)
    raise FormulaError(f"names {name!r}, which is not a number in this case")


def _to_number(result: object) -> float:
    """Check that a result is finite and not too large, and return it as a float."""
    if not isinstance(result, int | float):
        # The root of a negative number is complex; the minimum of two lists is a list.
        raise FormulaError("does not give a number")
    try:
        number = float(result)
    except OverflowError as error:
        raise FormulaError(_TOO_LARGE) from error
    if not isfinite(number) or abs(number) > VALUE_MAX:
        raise FormulaError(_TOO_LARGE)
    return number


KEY = "roofline"
# No run can be faster than a floor, so it lies below the roofline: some variants of a GPU type have
# faster memory than its data sheet says (H100 NVL), and clocks exceed those of the data sheet.
FLOOR_SHARE = 1 / 1.2
FLOOR_DIGITS = 6


def _as_text(value: object) -> object:
    """Turn a number into the formula that has its value."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return repr(value) if is_number else value


Formula = Annotated[
    str, Field(min_length=1, max_length=FORMULA_CHARS_MAX), BeforeValidator(_as_text)
]


class RooflineYml(StrictModel):
    """The minimum work of each call, as formulas over the arguments of its case.

    Units: `bytes` read and written, of which `written` are written; `flops` operations of `dtype`;
    `floor_us` microseconds, which replaces the floor computed from the other values.
    """

    bytes: Formula | None = None
    written: Formula | None = None
    flops: Formula | None = None
    dtype: Literal["fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "fp4", "int8"] | None = None
    floor_us: Formula | None = None


@dataclass(frozen=True)
class Work:
    """The minimum work of one call of a case. Units: bytes, operations, microseconds.

    `written` is the part of `bytes` that may still be in a cache when the call ends. Without
    `floor_us`, the floor is computed from the other values. `weight` is that of the case in the
    score.
    """

    case: str
    bytes: float = 0.0
    written: float = 0.0
    flops: float = 0.0
    dtype: str = ""
    floor_us: float | None = None
    weight: float = 1.0


@dataclass(frozen=True)
class RooflineResult:
    """How a time compares with the roofline; `share` is None for a GPU type without a data sheet.

    Units: 10^9 bytes and 10^9 operations per second. `bound` says what limits the roofline:
    `memory` or `compute`.
    """

    bandwidth_gb_s: float | None
    gflops: float | None
    dtype: str
    share: float | None
    bound: str | None


def roofline_manifest(
    document: Document | None, roofline: RooflineYml | None, cases: Sequence[Case]
) -> dict[str, Any]:
    """Return the manifest's entry: the formulas, and their values for each timed case.

    The entry is absent if the problem declares no roofline, so that its digest does not change.
    Errors: Refused.
    """
    if roofline is None or document is None:
        return {}
    _check_roofline(document, roofline)
    formulas = roofline.model_dump(exclude_none=True)
    return {KEY: formulas | {"cases": [_evaluate_case(document, formulas, case) for case in cases]}}


def read_works(manifest: Mapping[str, Any]) -> tuple[Work, ...]:
    """Return the minimum work of each timed case, in order; empty without a roofline.

    That of a hidden case is unknown.
    """
    roofline = manifest.get(KEY)
    if roofline is None:
        return ()
    dtype = roofline.get("dtype", "")
    pairs = zip(manifest["benchmarks"], roofline["cases"], strict=True)
    works = [
        Work(case=case["name"], dtype=dtype, weight=case.get("weight", 1.0), **values)
        for case, values in pairs
    ]
    # A hidden case is timed, too, and its work depends on what is drawn.
    hidden = manifest.get("hidden", {}).get("benchmarks", {"count": 0})
    numbers = range(1, hidden["count"] + 1)
    return (*works, *(Work(case=hidden_case_name("benchmarks", number)) for number in numbers))


def roofline_us(work: Work, gpu_type: str) -> float | None:
    """Return the time of a call at the rates of a GPU type's data sheet; None if unknown.

    >>> round(roofline_us(Work("size=1", bytes=4.8e6, flops=1e6, dtype="fp32"), "H200"), 9)
    1.0
    >>> roofline_us(Work("size=1", bytes=4.8e6), "CPU") is None
    True
    """
    spec = find_gpu_spec(gpu_type)
    return None if spec is None else max(_limits_us(work, spec), default=(None, ""))[0]


def compare_to_roofline(work: Work, gpu_type: str, time_us: float) -> RooflineResult | None:
    """Compare a time with the roofline of a GPU type; None for a time that is not positive."""
    if not time_us > 0:
        return None
    spec = find_gpu_spec(gpu_type)
    least_us, bound = max(_limits_us(work, spec), default=(None, None)) if spec else (None, None)
    return RooflineResult(
        bandwidth_gb_s=work.bytes / time_us / 1e3 if work.bytes else None,
        gflops=work.flops / time_us / 1e3 if work.flops else None,
        dtype=work.dtype,
        share=None if least_us is None else least_us / time_us,
        bound=bound,
    )


def floors_us(work: Work) -> dict[str, float]:
    """Return the time that no call can be under, by GPU type; "" stands for all other types.

    Written bytes may stay in the last cache as far as they fit, so only the inputs are cold.
    Source: docs/adr/floors-and-baselines.md.
    """
    if work.floor_us is not None:
        return {"": work.floor_us} if work.floor_us else {}
    floors = {spec.name: _floor_us(work, spec) for spec in gpu_specs()}
    return {name: floor_us for name, floor_us in floors.items() if floor_us}


def _floor_us(work: Work, spec: GpuSpec) -> float:
    cold_bytes = work.bytes - min(work.written, spec.cache_bytes)
    cold = Work(work.case, bytes=cold_bytes, flops=work.flops, dtype=work.dtype)
    least_us = max((time_us for time_us, _ in _limits_us(cold, spec)), default=0.0)
    return float(f"{least_us * FLOOR_SHARE:.{FLOOR_DIGITS}g}")


def _limits_us(work: Work, spec: GpuSpec) -> list[tuple[float, str]]:
    """Return the time that each of a GPU's two rates requires, as far as it is known."""
    times = [(work.bytes / spec.bandwidth * 1e6, "memory")] if work.bytes else []
    rate = spec.flops(work.dtype) if work.flops else None
    return times + ([(work.flops / rate * 1e6, "compute")] if rate else [])


def _check_roofline(document: Document, roofline: RooflineYml) -> None:
    if roofline.bytes is roofline.flops is roofline.floor_us is None:
        document.refuse((KEY,), "the roofline is empty: write bytes, flops or floor_us")
    if roofline.flops is not None and roofline.dtype is None:
        reason = "flops without a dtype: write that of the fastest unit allowed, such as fp32"
        document.refuse((KEY, "flops"), reason)
    if roofline.dtype is not None and roofline.flops is None:
        document.refuse((KEY, "dtype"), "a dtype without flops: write them, or leave it out")
    if roofline.written is not None and roofline.bytes is None:
        document.refuse((KEY, "written"), "written is a part of bytes: write bytes too")


def _evaluate_case(document: Document, formulas: Mapping[str, str], case: Case) -> dict[str, float]:
    values: dict[str, float] = {}
    for key in ("bytes", "written", "flops", "floor_us"):
        if key in formulas:
            try:
                values[key] = evaluate_formula(formulas[key], case.args)
            except FormulaError as error:
                reason = f"{key} {formulas[key]!r} {error}; the case is {case.name}"
                document.refuse((KEY, key), reason)
    if values.get("written", 0.0) > values.get("bytes", 0.0):
        reason = f"written is more than bytes for the case {case.name}: it is a part of them"
        document.refuse((KEY, "written"), reason)
    return values
