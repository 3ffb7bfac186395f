"""Problems that are one Python file: the older public form, and KernelBench's.

Both are read as a task with one case that has no arguments. Which form a file is of, its text says:
it is never run here.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from shared.errors import Refused
from shared.problems.directives import Directives, read_directives
from shared.problems.document import Document, bad_problem
from shared.problems.python import Module, read_module
from shared.problems.sources import REFERENCE, SUBMISSION_NAME
from shared.problems.task_yml import SUBMISSION

KERNELBENCH = "kernelbench"
OUTPUTS = "outputs"
INPUT_OUTPUT = "input_output"
CALLS = 5

_MODEL = ("Model", "get_inputs", "get_init_inputs")
_KERNEL = ("generate_input", "ref_kernel", "check_implementation")
_WEIGHTS = b"from_pretrained"
_CHECKED_BY = "check_arguments"
_SEED = 42
_SAID: Mapping[str, str] = {
    KERNELBENCH: "Define `ModelNew`, with the constructor and the `forward` of `Model`.",
    OUTPUTS: "Define `custom_kernel(input)`, which gives what `ref_kernel(input)` gives.",
    INPUT_OUTPUT: "Define `custom_kernel(input)`, which gives what `ref_kernel(input)` gives.",
}


@dataclass(frozen=True)
class Single:
    """A file as a task: the document that a task.yml would be, and what is told of it besides.

    `form` says how the harness calls it; "" is the way of every task directory.
    """

    document: Document
    form: str


def read_single(files: Mapping[str, bytes]) -> Single | None:
    """The one file among these that is a problem by itself; None if there is none.

    Errors: Refused `bad_problem`, if there are several, or if it may be meant in two ways.
    """
    found = {name: one for name, data in files.items() if (one := _module(name, data))}
    if not found:
        return None
    if len(found) > 1:
        what = f"{', '.join(sorted(found))}: each is a problem by itself, so keep one"
        raise bad_problem(what, min(found))
    ((name, module),) = found.items()
    form, case = _form(name, module)
    if form == KERNELBENCH and _WEIGHTS in files[name]:
        what = f"it asks for weights by {_WEIGHTS.decode()}, and no machine here has a network"
        raise bad_problem(f"{name}: {what}: make them in the file", name)
    gpus = _directives(name, files[name]).gpus
    task = {
        "files": [
            {"name": SUBMISSION_NAME, "source": SUBMISSION},
            {"name": REFERENCE, "source": name},
        ],
        "lang": "py",
        "config": {"main": REFERENCE},
        "description": _SAID[form],
        "tests": [case],
        "benchmarks": [case],
    }
    document = Document(name, task | ({"gpus": list(gpus)} if gpus else {}), {})
    return Single(document, "" if form == INPUT_OUTPUT else form)


def _module(name: str, data: bytes) -> Module | None:
    """What a file defines, if that is a problem. Errors: Refused, for one that is no Python."""
    if not name.endswith(".py") or "/" in name:
        return None
    if not all(word.encode() in data for word in _MODEL) and not all(
        word.encode() in data for word in _KERNEL
    ):
        return None
    module = read_module(name, data)
    is_one = any(all(name in module.names for name in names) for names in (_MODEL, _KERNEL))
    return module if is_one else None


def _form(name: str, module: Module) -> tuple[str, dict[str, int]]:
    """How a file is meant, and the arguments of its one case. Errors: Refused."""
    if all(one in module.names for one in _MODEL):
        return KERNELBENCH, {}
    generate = module.signature(_KERNEL[0])
    said = module.texts.get(_CHECKED_BY, "")
    if said not in ("", OUTPUTS, INPUT_OUTPUT):
        what = f"{said!r} is none: write {_CHECKED_BY} = {OUTPUTS!r} or {INPUT_OUTPUT!r}"
        raise bad_problem(f"{name}: {_CHECKED_BY} {what}", name)
    if strange := [one for one in generate.needs if one != "seed"]:
        what = f"generate_input needs {', '.join(strange)}: list the cases in a task.yml"
        raise bad_problem(f"{name}: {what}", name)
    has_seed = "seed" in generate.takes or generate.takes_any
    if not generate.takes and not generate.takes_any:
        return said or OUTPUTS, {}
    if not generate.needs and not said:
        what = "check_implementation may be meant for (output, reference's) or (input, output)"
        mend = f"write {_CHECKED_BY} = {OUTPUTS!r} or {INPUT_OUTPUT!r} beside it"
        raise bad_problem(f"{name}: {what}: {mend}", name)
    return said or INPUT_OUTPUT, {"seed": _SEED} if has_seed else {}


def _directives(name: str, data: bytes) -> Directives:
    try:
        return read_directives(data.decode("utf-8-sig", errors="replace"))
    except Refused as refused:
        raise bad_problem(f"{name}: {refused.reason}", name) from refused
