"""How a problem in C++ is compiled: its own sources beside our drivers, or a program of its own."""

from collections.abc import Collection
from typing import Any

from shared.problems.document import Document, shown
from shared.problems.sources import UP, normal
from shared.problems.task_yml import SUBMISSION, NativeYml, TaskYml
from shared.problems.warpboard_yml import NAME, WarpboardYml

SUFFIXES = (".cu", ".cpp", ".cc", ".cxx")
# The public system's drivers: ours stand in for them.
_DRIVERS = ("eval.cu", "eval.cpp")


def check_sources(document: Document, task: NativeYml, names: Collection[str]) -> None:
    """Whether all that is to be compiled is there. Errors: Refused, with the mend."""
    submission = _submission(task)
    for index, name in enumerate(task.config.sources):
        where = ("config", "sources", index)
        if name != submission and name not in names and name not in _DRIVERS:
            document.refuse(where, f"{shown(name)} is none of the files: list it there")
        if not name.endswith(SUFFIXES):
            what = f"{shown(name)} is no source: a header is included, not compiled"
            document.refuse(where, f"{what}; sources end in {', '.join(SUFFIXES)}")
    for index, folder in enumerate(task.config.include_dirs):
        inside = folder in (".", "./") or normal(folder)
        if not inside or str(inside).startswith(UP) or inside == "..":
            what = f"{shown(folder)} is no folder of the problem"
            mend = "libraries that an agent has are found by themselves, so leave it out"
            document.refuse(("config", "include_dirs", index), f"{what}: {mend}")
    if task.multi_gpu:
        document.refuse(("multi_gpu",), "a problem in C++ runs on one GPU: leave it out")


def of_native(document: Document, task: TaskYml, extras: WarpboardYml, main: str) -> dict[str, Any]:
    """Keys of the manifest of a problem in C++, nothing of any other. Errors: Refused."""
    if not isinstance(task, NativeYml):
        if extras.arrays is not None:
            document.refuse(
                (), f"{NAME} says arrays, and that is for a problem in C++: leave it out"
            )
        return {}
    config: dict[str, Any] = {"defines": task.config.defines, "flags": task.config.compile_flags}
    kept = (_submission(task), *(() if main else _DRIVERS))
    if sources := [name for name in task.config.sources if name not in kept]:
        config["sources"] = sources
    if extras.arrays == "device":
        config["arrays"] = extras.arrays
    return {"native": config, "languages": ["cpp", "cuda"]}


def _submission(task: TaskYml) -> str:
    return next((one.name for one in task.files if one.source == SUBMISSION), "")
