"""Check that a problem's own code defines what we call: Python, C++, or its own program.

Files are parsed, not run: names created while a file is imported are unknown until a run.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from shared.problems.cases import Case
from shared.problems.document import Document, bad_problem, quote_value
from shared.problems.sources import NATIVE, REFERENCE, UP, Signature, normalize_path, read_module
from shared.problems.task_yml import SUBMISSION, NativeYml, PythonConfig, TaskYml
from shared.problems.warpboard_yml import NAME, WarpboardYml

SUFFIXES = (".cu", ".cpp", ".cc", ".cxx")
# The public system's drivers, which ours replace.
_DRIVERS = ("eval.cu", "eval.cpp")


def check_native_sources(document: Document, task: NativeYml, names: Collection[str]) -> None:
    """Check that all files to compile are present. Errors: Refused, naming the fix."""
    submission = _submission_name(task)
    for index, name in enumerate(task.config.sources):
        where = ("config", "sources", index)
        if name != submission and name not in names and name not in _DRIVERS:
            document.refuse(
                where, f"{quote_value(name)} is not one of the files: list it under files"
            )
        if not name.endswith(SUFFIXES):
            reason = f"{quote_value(name)} is not a source file: headers are included, not compiled"
            document.refuse(where, f"{reason}; sources end in {', '.join(SUFFIXES)}")
    for index, folder in enumerate(task.config.include_dirs):
        inside = folder in (".", "./") or normalize_path(folder)
        if not inside or str(inside).startswith(UP) or inside == "..":
            reason = f"{quote_value(folder)} is not a folder of the problem"
            fix = "remove it; libraries installed on the agent are found automatically"
            document.refuse(("config", "include_dirs", index), f"{reason}: {fix}")
    if task.multi_gpu:
        document.refuse(("multi_gpu",), "a C++ problem runs on one GPU: remove multi_gpu")


def native_manifest(
    document: Document, task: TaskYml, extras: WarpboardYml, main: str
) -> dict[str, Any]:
    """Return the manifest's entries of a C++ problem, none for other problems. Errors: Refused."""
    if not isinstance(task, NativeYml):
        if extras.arrays is not None:
            document.refuse((), f"{NAME} sets arrays, which only C++ problems use: remove it")
        return {}
    config: dict[str, Any] = {"defines": task.config.defines, "flags": task.config.compile_flags}
    excluded = (_submission_name(task), *(() if main else _DRIVERS))
    if sources := [name for name in task.config.sources if name not in excluded]:
        config["sources"] = sources
    if extras.arrays == "device":
        config["arrays"] = extras.arrays
    return {"native": config, "languages": ["cpp", "cuda"]}


def _submission_name(task: TaskYml) -> str:
    return next((entry.name for entry in task.files if entry.source == SUBMISSION), "")


REFERENCE_FUNCTIONS = ("generate_input", "ref_kernel", "check_implementation")

# The gap before the brace is bounded: otherwise a long text of such names takes minutes to search.
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
    """Check the functions of reference.py and their arguments.

    `is_ranked`: each case is also run on every rank, whose number is passed as `rank`.
    Errors: Refused, naming the missing function or the case that cannot be generated.
    """
    _require_files(document, files, (REFERENCE,))
    module = read_module(REFERENCE, files[REFERENCE])
    missing = [name for name in REFERENCE_FUNCTIONS if not module.has(name)]
    if missing:
        reason = f"does not define {', '.join(missing)}: define {', '.join(REFERENCE_FUNCTIONS)}"
        raise bad_problem(f"{REFERENCE} {reason}", REFERENCE)
    generator = module.signature(REFERENCE_FUNCTIONS[0])
    for key, group in cases.items():
        for index, case in enumerate(group):
            args = {**case.args, "rank": 0} if is_ranked else case.args
            if complaint := generator.complaint(args):
                reason = f"this case {complaint}: {REFERENCE_FUNCTIONS[0]} in {REFERENCE} takes "
                document.refuse((key, index), reason + (", ".join(generator.takes) or "nothing"))


def check_native(
    document: Document,
    task: NativeYml,
    files: Mapping[str, bytes],
    cases: Mapping[str, Sequence[Case]],
) -> None:
    """Check a C++ problem, whose `task.h` names the arguments. Errors: Refused."""
    _require_files(document, files, NATIVE)
    header, reference = (files[name].decode() for name in NATIVE)
    missing = [
        name for name in REFERENCE_FUNCTIONS if not re.search(_FUNCTION.format(name), reference)
    ]
    if missing:
        raise bad_problem(f"{NATIVE[1]} does not define {', '.join(missing)}", NATIVE[1])
    if (match := _NAMES.search(header)) is None:
        reason = 'names no arguments: write constexpr std::array ArgumentNames = {"size", "seed"};'
        raise bad_problem(f"{NATIVE[0]} {reason}", NATIVE[0])
    names = tuple(_NAME.findall(match[1]))
    generator = Signature(names, names)
    for key, group in cases.items():
        for index, case in enumerate(group):
            if complaint := generator.complaint(case.args):
                reason = (
                    f"this case {complaint}: ArgumentNames in {NATIVE[0]} has {', '.join(names)}"
                )
                document.refuse((key, index), reason)
            for name, value in case.args.items():
                if not isinstance(value, bool | int | float | str):
                    document.refuse((key, index, name), "C++ takes a bool, int, float or str here")
    check_native_sources(document, task, files)


def _require_files(document: Document, files: Mapping[str, bytes], names: Sequence[str]) -> None:
    for name in names:
        if name not in files:
            document.refuse(
                ("files",), f"file {quote_value(name)} is missing: add it, with its source"
            )


POPCORN = "popcorn"
WARNING = (
    "it is run by its own {main}, whose clock and check share the submission's process:"
    " its times are of tier G0, which ranks nowhere but where an operator says so"
)

_PROTOCOL = b"POPCORN_FD"
_WORD = re.compile(r"[A-Za-z]+\Z")


def find_own_program(
    document: Document, task: TaskYml | NativeYml, extras: WarpboardYml, files: Mapping[str, bytes]
) -> str:
    """Return the problem's own program, "" if our harness runs the problem.

    Its own program runs it if warpboard.yml asks for that, or if reference.py lacks the functions
    our harness calls and the program exists. Errors: Refused.
    """
    if isinstance(task, NativeYml) or not isinstance(task.config, PythonConfig):
        return _find_native_program(document, task, files) if extras.harness == POPCORN else ""
    main = task.config.main
    is_requested = extras.harness == POPCORN
    if is_requested and main not in files:
        reason = (
            f"{quote_value(main)} must run the problem but is not one of its files: add it to files"
        )
        document.refuse(("config", "main"), reason)
    return main if is_requested or _needs_own_program(extras, files, main) else ""


def _find_native_program(document: Document, task: TaskYml, files: Mapping[str, bytes]) -> str:
    """Return the source of a C++ problem that uses the protocol. Errors: Refused."""
    assert isinstance(task, NativeYml)
    check_native_sources(document, task, files)
    programs = [name for name in task.config.sources if _PROTOCOL in files.get(name, b"")]
    if not programs:
        reason = (
            f"{NAME} asks for popcorn, but no source uses its protocol: add the program, eval.cu"
        )
        document.refuse(("config", "sources"), reason)
    return programs[0]


def check_textual_cases(
    document: Document, cases: Sequence[Case], key: str, extras: WarpboardYml
) -> None:
    """Refuse argument values that the public readers of cases misread or cannot read."""
    for index, case in enumerate(cases):
        for name, value in case.args.items():
            if fix := _suggest_fix(value, extras):
                reason = (
                    f"the program's reader does not read {quote_value(value)} as written: {fix}"
                )
                document.refuse((key, index, name), reason)


def arguments_text(args: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments as the public text form writes them: a bool is 1 or 0.

    >>> arguments_text({"n": 3, "is_flat": True})
    {'n': 3, 'is_flat': 1}
    """
    return {name: int(value) if isinstance(value, bool) else value for name, value in args.items()}


def _suggest_fix(value: object, extras: WarpboardYml) -> str:
    """Return how to fix a value that would be misread; "" if it is fine."""
    if isinstance(value, bool):
        return "" if extras.bool_as == "int" else f"write bool_as: int in {NAME}, or 1 or 0"
    if isinstance(value, int) or (isinstance(value, str) and _WORD.match(value)):
        return ""
    return "write an integer, or a word of letters"


def _needs_own_program(extras: WarpboardYml, files: Mapping[str, bytes], main: str) -> bool:
    """Return whether our harness cannot run a problem but its own program can."""
    if (
        extras.harness is not None
        or REFERENCE not in files
        or _PROTOCOL not in files.get(main, b"")
    ):
        return False
    module = read_module(REFERENCE, files[REFERENCE])
    return not any(module.has(name) for name in REFERENCE_FUNCTIONS)
