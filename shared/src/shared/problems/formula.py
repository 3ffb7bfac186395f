"""Arithmetic over the arguments of a case, as an author writes it: read, never run."""

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from math import ceil, isfinite
from typing import Any

FORMULA_CHARS_MAX = 200
# Past this a count is no count of bytes or operations that a machine could do in a day.
VALUE_MAX = 1e24

Value = float | Sequence[float]


class BadFormula(Exception):  # noqa: N818
    """What is wrong with a formula, as the middle of a sentence."""


def value(text: str, args: Mapping[str, Any]) -> float:
    """What a formula comes to for a case: finite and at least 0. Errors: BadFormula.

    There are numbers, arguments by name, + - * / // **, parentheses, and the functions min, max,
    ceil, len and sum. Everything is a float from the first step on, so nothing grows large.

    >>> value("4 * (2 * m * k + len(sizes))", {"m": 3, "k": 5, "sizes": [1, 2]})
    128.0
    """
    if len(text) > FORMULA_CHARS_MAX:
        raise BadFormula(f"has {len(text)} characters: at most {FORMULA_CHARS_MAX}")
    try:
        tree = ast.parse(text.strip(), mode="eval")
        found = _Reader(args).number(tree.body)
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise BadFormula("is no arithmetic: write it like 3*2*size*size") from error
    if found < 0:
        raise BadFormula(f"comes to {found:g}: write what is at least 0")
    return found


class _Reader:
    """Walks the parsed formula; whatever it does not know it refuses."""

    def __init__(self, args: Mapping[str, Any]) -> None:
        self._args = args

    def number(self, node: ast.expr) -> float:
        """The number that a part comes to."""
        found = self._value(node)
        if not isinstance(found, float):
            raise BadFormula(f"takes {ast.unparse(node)!r} for a number: it is a list")
        return found

    def _value(self, node: ast.expr) -> Value:
        match node:
            case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
                return _checked(number)
            case ast.Name(id=name):
                return self._argument(name)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=operand):
                found = self.number(operand)
                return -found if isinstance(sign, ast.USub) else found
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                return self._applied(_OPERATORS[type(op)], left, right)
            case ast.Call(func=ast.Name(id=name), args=given, keywords=[]):
                return self._called(name, given)
        what = "numbers, arguments, + - * / // **, min, max, ceil, len and sum"
        raise BadFormula(f"has {ast.unparse(node)!r}, which is none of {what}")

    def _applied(
        self, apply: Callable[[float, float], Any], left: ast.expr, right: ast.expr
    ) -> float:
        try:
            return _checked(apply(self.number(left), self.number(right)))
        except ZeroDivisionError as error:
            raise BadFormula("divides by 0") from error
        except OverflowError as error:
            raise BadFormula(_TOO_LARGE) from error

    def _argument(self, name: str) -> Value:
        if name not in self._args:
            near = get_close_matches(name, self._args, 1)
            known = ", ".join(self._args) or "none"
            mend = f"did you mean {near[0]!r}?" if near else f"the arguments are: {known}"
            raise BadFormula(f"names {name!r}, which the case does not have: {mend}")
        found = self._args[name]
        if isinstance(found, list):
            return [_numeric(name, one) for one in found]
        return _numeric(name, found)

    def _called(self, name: str, given: Sequence[ast.expr]) -> float:
        if name not in _FUNCTIONS:
            known = ", ".join(_FUNCTIONS)
            raise BadFormula(f"calls {name!r}: there are {known}")
        try:
            return _checked(_FUNCTIONS[name](*map(self._value, given)))
        except (TypeError, ValueError) as error:
            raise BadFormula(f"gives {name}() what it does not take") from error


_TOO_LARGE = f"comes to more than {VALUE_MAX:g}"
_OPERATORS: Mapping[type[ast.operator], Callable[[float, float], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
}
_FUNCTIONS: Mapping[str, Callable[..., float]] = {
    "min": min,
    "max": max,
    "ceil": ceil,
    "len": len,
    "sum": sum,
}


def _numeric(name: str, found: object) -> float:
    if isinstance(found, bool | int | float):
        return _checked(found)
    raise BadFormula(f"names {name!r}, which is no number in this case")


def _checked(found: object) -> float:
    """A number that is none of the odd ones, as a float."""
    if not isinstance(found, int | float):
        # A root of a negative number is complex; the least of two lists is a list.
        raise BadFormula("comes to what is no number")
    try:
        number = float(found)
    except OverflowError as error:
        raise BadFormula(_TOO_LARGE) from error
    if not isfinite(number) or abs(number) > VALUE_MAX:
        raise BadFormula(_TOO_LARGE)
    return number
