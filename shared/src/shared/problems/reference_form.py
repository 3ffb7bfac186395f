"""How the functions of a Python reference are called, read from their parameters; never run here.

A check takes the submission's output and the reference's, in either order, or the input and the
output. The names of its parameters tell which; where a name tells nothing, its annotation does.
"""

import ast
import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from shared.errors import Refused
from shared.problems.document import bad_problem
from shared.problems.sources import REFERENCE_FUNCTIONS
from shared.problems.task_yml import INT_MAX

INPUT_OUTPUT = ""
OUTPUTS = "outputs"
REFERENCE_OUTPUTS = "reference_outputs"

SEED = "seed"
_SEED = 42
# The harness gives these to the ranks of a task.yml's cases.
_RANK_ARGUMENTS = ("rank", "world_size")
_TEXT_CHARS_MAX = 60
_GENERATE, _ANSWER, _CHECK = REFERENCE_FUNCTIONS

# Roles of a parameter of a check: what a submission gave, what the reference gave, or either.
_INPUT, _SUBMISSION, _REFERENCE, _EITHER = "input", "submission", "reference", "either"
_WORDS: Mapping[str, tuple[str, ...]] = {
    _INPUT: ("input", "inputs", "inp"),
    _REFERENCE: (
        *("ref", "reference", "expect", "expected", "want", "wanted", "target"),
        *("truth", "true", "gold", "golden", "correct", "gt"),
    ),
    _SUBMISSION: (
        *("user", "custom", "submission", "submitted", "got", "actual", "received"),
        *("candidate", "pred", "predicted"),
    ),
    _EITHER: ("output", "outputs", "out", "outs", "result", "results", "answer", "answers"),
}
_TYPES: Mapping[str, str] = {
    "input_t": _INPUT,
    "InputType": _INPUT,
    "output_t": _EITHER,
    "OutputType": _EITHER,
}
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_FORMS: Mapping[tuple[str, str], str] = {
    (_INPUT, _SUBMISSION): INPUT_OUTPUT,
    (_INPUT, _EITHER): INPUT_OUTPUT,
    (_INPUT, ""): INPUT_OUTPUT,
    (_SUBMISSION, _REFERENCE): OUTPUTS,
    (_EITHER, _REFERENCE): OUTPUTS,
    ("", _REFERENCE): OUTPUTS,
    (_SUBMISSION, _EITHER): OUTPUTS,
    (_EITHER, _EITHER): OUTPUTS,
    (_REFERENCE, _SUBMISSION): REFERENCE_OUTPUTS,
    (_REFERENCE, _EITHER): REFERENCE_OUTPUTS,
    (_REFERENCE, ""): REFERENCE_OUTPUTS,
    (_EITHER, _SUBMISSION): REFERENCE_OUTPUTS,
}
_LINES = (
    f"write `def {_CHECK}(custom_output, ref_output):` or `def {_CHECK}(input, custom_output):`"
)
_TASK_LINES = """\
lang: py
config: {{main: eval.py}}
files:
  - {{name: submission.py, source: "@SUBMISSION@"}}
  - {{name: reference.py, source: {name}}}
description: {description}
tests:
  - {case}
benchmarks:
  - {case}"""
_EXAMPLES: Mapping[str, str] = {"float": "1.0", "bool": "true", "str": "text"}


@dataclass(frozen=True)
class Function:
    """A function as its `def` or lambda tells, whatever its decorators."""

    arguments: ast.arguments
    returns: ast.expr | None = None

    @property
    def positional(self) -> list[ast.arg]:
        """The parameters that a call may give by position."""
        return [*self.arguments.posonlyargs, *self.arguments.args]

    @property
    def defaults(self) -> dict[str, ast.expr]:
        """The default of each parameter that has one."""
        positional = self.positional
        defaults = self.arguments.defaults
        pairs = zip(positional[len(positional) - len(defaults) :], defaults, strict=True)
        keywords = zip(self.arguments.kwonlyargs, self.arguments.kw_defaults, strict=True)
        return {
            parameter.arg: value for parameter, value in (*pairs, *keywords) if value is not None
        }

    @property
    def named(self) -> list[ast.arg]:
        """The parameters that a call may give by name, in order."""
        return [*self.arguments.args, *self.arguments.kwonlyargs]

    @property
    def needed(self) -> list[str]:
        """The parameters that every call must give."""
        parameters = [*self.positional, *self.arguments.kwonlyargs]
        return [parameter.arg for parameter in parameters if parameter.arg not in self.defaults]

    @property
    def takes_two(self) -> bool:
        """Whether a call may give two arguments by position, and no more."""
        names = {parameter.arg for parameter in self.positional[:2]}
        return len(names) == 2 and names.issuperset(self.needed)


def read_functions(tree: ast.Module) -> dict[str, Function]:
    """Return the functions that a file defines at its top level, by name."""
    functions: dict[str, Function] = {}
    for node in _top_statements(tree.body):
        match node:
            case ast.FunctionDef(name=name, args=arguments, returns=returns):
                functions[name] = Function(arguments, returns)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Lambda(args=arguments)):
                functions[name] = Function(arguments)
    return functions


def _top_statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield statements, and those in the branches of an `if` or `try`, in order."""
    waiting = [*body][::-1]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, ast.If | ast.Try):
            handlers = node.handlers if isinstance(node, ast.Try) else []
            bodies = [node.body, *(handler.body for handler in handlers), node.orelse]
            waiting += [inner for statements in bodies for inner in statements][::-1]


def find_check_form(tree: ast.Module) -> str | None:
    """Return how the harness calls the check of a file; None if its source does not tell.

    >>> find_check_form(ast.parse("def check_implementation(user_output, reference_output): ..."))
    'outputs'
    >>> find_check_form(ast.parse("def check_implementation(a, b): ..."))
    """
    functions = read_functions(tree)
    if (check := functions.get(_CHECK)) is None:
        return INPUT_OUTPUT if _is_matching_reference(tree) else None
    if not check.takes_two:
        return None
    answer, generate = (functions.get(name) for name in (_ANSWER, _GENERATE))
    data = answer.positional[:1] if answer else []
    types = [*(parameter.annotation for parameter in data), generate.returns if generate else None]
    inputs, outputs = _annotations(types), _annotations([answer.returns if answer else None])
    roles = {
        **_TYPES,
        **dict.fromkeys(inputs - outputs, _INPUT),
        **dict.fromkeys(outputs - inputs, _EITHER),
    }
    names = {parameter.arg: _INPUT for parameter in data}
    first, second = (
        _role_of_name(parameter.arg)
        or names.get(parameter.arg)
        or roles.get("".join(_annotations([parameter.annotation])), "")
        for parameter in check.positional[:2]
    )
    return _FORMS.get((first, second))


def native_check_form(parameters: Sequence[str]) -> str | None:
    """Return how a check in C++ with two parameters is called; None if these do not tell.

    >>> native_check_form(["input_t data", "const output_t &output"])
    ''
    >>> native_check_form(["output_t expected", "output_t got"])
    'reference_outputs'
    """
    roles = []
    for parameter in parameters:
        words = re.findall(r"\w+", parameter)
        known = [_TYPES[word] for word in words if word in _TYPES]
        roles.append(_role_of_name(words[-1] if words else "") or "".join(known[:1]))
    return _FORMS.get((roles[0], roles[1]))


def require_check_form(name: str, tree: ast.Module) -> str:
    """Return how the harness calls the check. Errors: Refused, with the line to write."""
    form = find_check_form(tree)
    if form is not None:
        return form
    check = read_functions(tree).get(_CHECK)
    if check is None:
        reason = f"{_CHECK} is not defined by a `def`, so nothing tells its arguments"
    elif not check.takes_two:
        reason = f"{_CHECK} takes exactly two arguments; give all others a default"
    else:
        names = ", ".join(parameter.arg for parameter in check.positional[:2])
        reason = f"{_CHECK}({names}) could take (output, reference's output) or (input, output)"
    raise bad_problem(f"{name}: {reason}: {_LINES}", name)


def read_case(name: str, tree: ast.Module) -> dict[str, object]:
    """Return the arguments of the only case: the defaults that are numbers or words, and a seed.

    Errors: Refused if `generate_input` needs more, with the lines of a task.yml.
    """
    generate = read_functions(tree).get(_GENERATE)
    if generate is None:
        # It is imported or made by a call: only a run tells what it takes.
        return {SEED: _SEED}
    if generate.arguments.posonlyargs:
        reason = f"{_GENERATE} gets its arguments by name: remove the / of its parameters"
        raise bad_problem(f"{name}: {reason}", name)
    if needed := [argument for argument in generate.needed if argument != SEED]:
        raise _missing_cases(name, generate, needed)
    case: dict[str, object] = {SEED: _SEED} if generate.arguments.kwarg else {}
    for parameter in generate.named:
        value = _read_default(generate.defaults.get(parameter.arg))
        if parameter.arg == SEED:
            is_seed = isinstance(value, int) and not isinstance(value, bool) and value >= 0
            case[SEED] = value if is_seed else _SEED
        elif value is not None and parameter.arg not in _RANK_ARGUMENTS:
            case[parameter.arg] = value
    return case


def _missing_cases(name: str, generate: Function, needed: list[str]) -> Refused:
    texts = {
        parameter.arg: _EXAMPLES.get(next(iter(_annotations([parameter.annotation])), ""), "1024")
        for parameter in generate.named
        if parameter.arg in needed or parameter.arg == SEED
    }
    if SEED in texts:
        texts[SEED] = str(_SEED)
    case = ", ".join(f"{key}: {value}" for key, value in texts.items())
    lines = _TASK_LINES.format(name=name, description="What to compute", case=f"{{{case}}}")
    reason = (
        f"{_GENERATE} needs {', '.join(needed)}: give defaults in the file, "
        f"such as {needed[0]}={texts[needed[0]]}, "
        f"or add a task.yml with these lines, and your own cases, beside it:\n{lines}"
    )
    return bad_problem(f"{name}: {reason}", name)


def _read_default(default: ast.expr | None) -> object:
    """Return a default that is a number, a word or a bool; None for all others."""
    if default is None:
        return None
    try:
        value = ast.literal_eval(default)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    match value:
        case float():
            return value if isfinite(value) else None
        case str():
            return value if len(value) <= _TEXT_CHARS_MAX and value.isprintable() else None
    return value if isinstance(value, int) and -INT_MAX <= value <= INT_MAX else None


def _role_of_name(name: str) -> str:
    """Return the role that a parameter's name tells; "" for none, or for two that differ.

    >>> [_role_of_name(name) for name in ("custom_output", "refOut", "input", "data", "user_input")]
    ['submission', 'reference', 'input', 'input', '']
    """
    words = {word.lower() for word in _WORD.findall(name)}
    roles = [role for role, known in _WORDS.items() if words.intersection(known)]
    if _INPUT in roles:
        return _INPUT if len(roles) == 1 else ""
    if _REFERENCE in roles:
        return _REFERENCE if _SUBMISSION not in roles else ""
    return roles[0] if roles else (_INPUT if words == {"data"} else "")


def _annotations(annotations: Iterable[ast.expr | None]) -> set[str]:
    """Return annotations as texts; one in quotes is its text."""
    texts = set()
    for annotation in annotations:
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            texts.add(annotation.value)
        elif annotation is not None:
            # One that is nested too deeply tells nothing.
            with contextlib.suppress(RecursionError):
                texts.add(ast.unparse(annotation))
    return texts


def _is_matching_reference(tree: ast.Module) -> bool:
    """Return whether the check is made by `make_match_reference` of `utils`."""
    is_imported = is_made = False
    for node in _top_statements(tree.body):
        match node:
            case ast.ImportFrom(module="utils", names=names):
                is_imported |= any(alias.name == "make_match_reference" for alias in names)
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.Call(func=ast.Name(id="make_match_reference")),
            ):
                is_made |= name == _CHECK
    return is_imported and is_made
