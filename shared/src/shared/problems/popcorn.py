"""Problems that are run by a program of their own, by the public system's POPCORN_FD protocol."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from shared.problems.cases import Case
from shared.problems.contract import FUNCTIONS
from shared.problems.document import Document, shown
from shared.problems.native import check_sources
from shared.problems.python import read_module
from shared.problems.sources import REFERENCE
from shared.problems.task_yml import NativeYml, PythonConfig, TaskYml
from shared.problems.warpboard_yml import NAME, WarpboardYml

POPCORN = "popcorn"
WARNING = (
    "it is run by its own {main}, whose clock and check share the submission's process:"
    " its times are of tier G0, which ranks nowhere but where an operator says so"
)

_PROTOCOL = b"POPCORN_FD"
_WORD = re.compile(r"[A-Za-z]+\Z")


def own_program(
    document: Document, task: TaskYml | NativeYml, extras: WarpboardYml, files: Mapping[str, bytes]
) -> str:
    """The program of its own that runs a problem; "" where our harness does.

    That is where warpboard.yml asks for it, or where reference.py lacks what our harness calls and
    the program is there. Errors: Refused.
    """
    if isinstance(task, NativeYml) or not isinstance(task.config, PythonConfig):
        return _native_program(document, task, files) if extras.harness == POPCORN else ""
    main = task.config.main
    if extras.harness == POPCORN and main not in files:
        what = f"{shown(main)} is to run the problem, and is none of its files: list it there"
        document.refuse(("config", "main"), what)
    is_asked = extras.harness == POPCORN
    return main if is_asked or _must(extras, files, main) else ""


def _native_program(document: Document, task: TaskYml, files: Mapping[str, bytes]) -> str:
    """The source of a problem in C++ that speaks the protocol. Errors: Refused."""
    assert isinstance(task, NativeYml)
    check_sources(document, task, files)
    speaking = [name for name in task.config.sources if _PROTOCOL in files.get(name, b"")]
    if not speaking:
        what = f"{NAME} asks for popcorn, and none of these speaks it: name the program, eval.cu"
        document.refuse(("config", "sources"), what)
    return speaking[0]


def textual(document: Document, cases: Sequence[Case], key: str, extras: WarpboardYml) -> None:
    """Refuses what the public readers of cases do not read, or read as something else."""
    for index, case in enumerate(cases):
        for name, value in case.args.items():
            if mend := _mend(value, extras):
                what = f"the program's reader does not take {shown(value)} as it is: {mend}"
                document.refuse((key, index, name), what)


def as_text(args: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments as the public text form carries them: a bool is 1 or 0.

    >>> as_text({"n": 3, "is_flat": True})
    {'n': 3, 'is_flat': 1}
    """
    return {key: int(one) if isinstance(one, bool) else one for key, one in args.items()}


def _mend(value: object, extras: WarpboardYml) -> str:
    """What an author can do about a value that is read otherwise; "" if it is not."""
    if isinstance(value, bool):
        return "" if extras.bool_as == "int" else f"write bool_as: int in {NAME}, or 1 or 0"
    if isinstance(value, int) or (isinstance(value, str) and _WORD.match(value)):
        return ""
    return "write an integer, or a word of letters"


def _must(extras: WarpboardYml, files: Mapping[str, bytes], main: str) -> bool:
    """Whether our harness cannot run a problem, and its own program can."""
    if (
        extras.harness is not None
        or REFERENCE not in files
        or _PROTOCOL not in files.get(main, b"")
    ):
        return False
    module = read_module(REFERENCE, files[REFERENCE])
    return not any(module.has(name) for name in FUNCTIONS)
