"""Problems in one Python file: the older public form, and KernelBench's.

Both are read as a task with one case without arguments. The form follows from the source, which is
never run here.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from shared.errors import Refused
from shared.problems.document import Document, bad_problem
from shared.problems.sources import REFERENCE, SUBMISSION_NAME, Module, read_module
from shared.problems.submission_file import read_directives
from shared.problems.task_yml import SUBMISSION

KERNELBENCH = "kernelbench"
OUTPUTS = "outputs"
INPUT_OUTPUT = "input_output"
CALLS = 5

_MODEL_NAMES = ("Model", "get_inputs", "get_init_inputs")
_KERNEL_NAMES = ("generate_input", "ref_kernel", "check_implementation")
_WEIGHTS_CALL = b"from_pretrained"
_CHECK_CONSTANT = "check_arguments"
_SEED = 42
_DESCRIPTIONS: Mapping[str, str] = {
    KERNELBENCH: "Define `ModelNew`, with the constructor and the `forward` of `Model`.",
    OUTPUTS: "Define `custom_kernel(input)`, which gives what `ref_kernel(input)` gives.",
    INPUT_OUTPUT: "Define `custom_kernel(input)`, which gives what `ref_kernel(input)` gives.",
}


@dataclass(frozen=True)
class SingleFileTask:
    """A file as a task: the document a task.yml would be, and the form of the file.

    `form` says how the harness calls it; "" is the way of task directories.
    """

    document: Document
    form: str


def read_single_file(files: Mapping[str, bytes]) -> SingleFileTask | None:
    """Find the only file that is a problem by itself; None if there is none.

    Errors: Refused `bad_problem` if there are several, or if the form is ambiguous.
    """
    modules = {
        name: module for name, data in files.items() if (module := _read_problem(name, data))
    }
    if not modules:
        return None
    if len(modules) > 1:
        reason = f"{', '.join(sorted(modules))}: each is a problem by itself, so keep one"
        raise bad_problem(reason, min(modules))
    ((name, module),) = modules.items()
    form, case = _read_form(name, module)
    if form == KERNELBENCH and _WEIGHTS_CALL in files[name]:
        reason = (
            f"it asks for weights by {_WEIGHTS_CALL.decode()}, and no machine here has a network"
        )
        raise bad_problem(f"{name}: {reason}: make them in the file", name)
    try:
        gpus = read_directives(files[name].decode("utf-8-sig", errors="replace")).gpus
    except Refused as refused:
        raise bad_problem(f"{name}: {refused.reason}", name) from refused
    task = {
        "files": [
            {"name": SUBMISSION_NAME, "source": SUBMISSION},
            {"name": REFERENCE, "source": name},
        ],
        "lang": "py",
        "config": {"main": REFERENCE},
        "description": _DESCRIPTIONS[form],
        "tests": [case],
        "benchmarks": [case],
    }
    document = Document(name, task | ({"gpus": list(gpus)} if gpus else {}), {})
    return SingleFileTask(document, "" if form == INPUT_OUTPUT else form)


def _read_problem(name: str, data: bytes) -> Module | None:
    """Read a file that is a problem; None for other files. Errors: Refused if it is not Python."""
    if not name.endswith(".py") or "/" in name:
        return None
    if not all(word.encode() in data for word in _MODEL_NAMES) and not all(
        word.encode() in data for word in _KERNEL_NAMES
    ):
        return None
    module = read_module(name, data)
    is_problem = any(
        all(name in module.names for name in names) for names in (_MODEL_NAMES, _KERNEL_NAMES)
    )
    return module if is_problem else None


def _read_form(name: str, module: Module) -> tuple[str, dict[str, int]]:
    """Return a file's form, and the arguments of its one case. Errors: Refused."""
    if all(required in module.names for required in _MODEL_NAMES):
        return KERNELBENCH, {}
    generate = module.signature(_KERNEL_NAMES[0])
    declared = module.texts.get(_CHECK_CONSTANT, "")
    if declared not in ("", OUTPUTS, INPUT_OUTPUT):
        reason = f"is {declared!r}: write {_CHECK_CONSTANT} = {OUTPUTS!r} or {INPUT_OUTPUT!r}"
        raise bad_problem(f"{name}: {_CHECK_CONSTANT} {reason}", name)
    if unsupported := [argument for argument in generate.needs if argument != "seed"]:
        reason = f"generate_input needs {', '.join(unsupported)}: list the cases in a task.yml"
        raise bad_problem(f"{name}: {reason}", name)
    has_seed = "seed" in generate.takes or generate.takes_any
    if not generate.takes and not generate.takes_any:
        return declared or OUTPUTS, {}
    if not generate.needs and not declared:
        reason = "check_implementation could take (output, reference's) or (input, output)"
        fix = f"write {_CHECK_CONSTANT} = {OUTPUTS!r} or {INPUT_OUTPUT!r} beside it"
        raise bad_problem(f"{name}: {reason}: {fix}", name)
    return declared or INPUT_OUTPUT, {"seed": _SEED} if has_seed else {}
