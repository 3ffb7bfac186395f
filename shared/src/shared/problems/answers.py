"""What a problem asks of a run beyond its files: how answers are read, and how much memory."""

from collections.abc import Collection
from typing import Any

from shared.problems.document import Document
from shared.problems.single_file import KERNELBENCH
from shared.problems.sources import REFERENCE
from shared.problems.task_yml import NativeYml, TaskYml
from shared.problems.warpboard_yml import NAME, WarpboardYml

CHECKED = "checked"


def of_answers(
    document: Document, task: TaskYml, extras: WarpboardYml, form: str, names: Collection[str]
) -> dict[str, Any]:
    """Keys of the manifest, each absent where nothing is asked. Errors: Refused.

    A problem that brings the program of the public system is written for that, where its check
    alone judges; it does so here, if warpboard.yml does not say otherwise.
    """
    memory = extras.limits.memory_mib
    found: dict[str, Any] = {"memory_mib": memory} if memory else {}
    if isinstance(task, NativeYml) or form == KERNELBENCH:
        if extras.answers == CHECKED:
            what = f"{NAME} says answers: checked, and no check of its own judges this problem"
            document.refuse((), f"{what}: leave it out")
        return found
    # Of a problem in one file that file stands where the program's name is.
    is_public = task.config.main in names and task.config.main != REFERENCE
    is_checked = is_public if extras.answers is None else extras.answers == CHECKED
    return found | ({"answers": CHECKED} if is_checked else {})
