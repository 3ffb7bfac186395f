"""What a problem's reference.py must define, and whether its cases are arguments of its generator.

The file is read, not run: what it makes while it is imported nobody knows before a run does.
"""

import re
from collections.abc import Mapping, Sequence

from shared.problems.cases import Case
from shared.problems.document import Document, bad_problem, shown
from shared.problems.native import check_sources
from shared.problems.python import Signature, read_module
from shared.problems.sources import NATIVE, REFERENCE
from shared.problems.task_yml import NativeYml

FUNCTIONS = ("generate_input", "ref_kernel", "check_implementation")

# The way to the brace is bounded: without that a long text of such names takes minutes to search.
_NAMES = re.compile(r"\bArgumentNames\b[^{};]{0,200}?\{((?:[^{}]|\{[^{}]*\})*)\}")
_NAME = re.compile(r'"([A-Za-z_][A-Za-z0-9_]*)"')
_FUNCTION = r"\b{}\s*\("


def check_reference(
    document: Document,
    files: Mapping[str, bytes],
    cases: Mapping[str, Sequence[Case]],
    *,
    is_ranked: bool,
) -> None:
    """Errors: Refused, with the function that is missing, or the case that cannot be made.

    `is_ranked`: each case also goes to every rank, with its number as `rank`.
    """
    _require(document, files, (REFERENCE,))
    module = read_module(REFERENCE, files[REFERENCE])
    missing = [name for name in FUNCTIONS if not module.has(name)]
    if missing:
        what = f"defines no {', no '.join(missing)}: define {', '.join(FUNCTIONS)}"
        raise bad_problem(f"{REFERENCE} {what}", REFERENCE)
    takes = module.signature(FUNCTIONS[0])
    for key, found in cases.items():
        for index, case in enumerate(found):
            given = {**case.args, "rank": 0} if is_ranked else case.args
            if said := takes.complaint(given):
                what = f"this case {said}: {FUNCTIONS[0]} in {REFERENCE} takes "
                document.refuse((key, index), what + (", ".join(takes.takes) or "nothing"))


def check_native(
    document: Document,
    task: NativeYml,
    files: Mapping[str, bytes],
    cases: Mapping[str, Sequence[Case]],
) -> None:
    """The same of a problem in C++, whose `task.h` names the arguments. Errors: Refused."""
    _require(document, files, NATIVE)
    header, reference = (files[name].decode() for name in NATIVE)
    missing = [one for one in FUNCTIONS if not re.search(_FUNCTION.format(one), reference)]
    if missing:
        raise bad_problem(f"{NATIVE[1]} defines no {', no '.join(missing)}", NATIVE[1])
    if (said := _NAMES.search(header)) is None:
        what = 'names no arguments: write constexpr std::array ArgumentNames = {"size", "seed"};'
        raise bad_problem(f"{NATIVE[0]} {what}", NATIVE[0])
    names = tuple(_NAME.findall(said[1]))
    takes = Signature(names, names)
    for key, found in cases.items():
        for index, case in enumerate(found):
            if complaint := takes.complaint(case.args):
                what = f"this case {complaint}: ArgumentNames in {NATIVE[0]} has {', '.join(names)}"
                document.refuse((key, index), what)
            for name, value in case.args.items():
                if not isinstance(value, bool | int | float | str):
                    document.refuse((key, index, name), "C++ takes a bool, int, float or str here")
    check_sources(document, task, files)


def _require(document: Document, files: Mapping[str, bytes], names: Sequence[str]) -> None:
    for name in names:
        if name not in files:
            document.refuse(("files",), f"no file {shown(name)}: add it, with its source")
