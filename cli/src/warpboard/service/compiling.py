"""Problems as an author names them, compiled here."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shared.errors import Refused
from warpboard.service.ports import Disk, ProblemFiles


@dataclass(frozen=True)
class Asked:
    """Which problems are meant, by which name if it is one; GPU types for those without any.

    `unchecked` is an operator's reason to publish without a check, `is_strict` makes of each
    warning an error.
    """

    folders: Sequence[Path]
    slug: str | None
    as_json: bool
    gpus: tuple[str, ...] = ()
    unchecked: str = ""
    is_strict: bool = False


def compiled(disk: Disk, folder: Path, slug: str | None, gpus: tuple[str, ...]) -> ProblemFiles:
    """A problem, compiled. Errors: Refused, with the folder."""
    try:
        return disk.problem(folder, slug, gpus)
    except Refused as refused:
        raise Refused(refused.code, f"{folder}: {refused.reason}", refused.field) from refused


def folders_of(disk: Disk, path: Path) -> list[Path]:
    """The problems of a path: those of a contest file, else itself. Errors: Refused."""
    return [Path(one.directory) for one in disk.contest(path)] or [path]


def digest_of(problem: ProblemFiles) -> str:
    """Which version it is."""
    return hashlib.sha256(problem.manifest).hexdigest()


def manifest_of(problem: ProblemFiles) -> Any:
    """What its manifest says."""
    return json.loads(problem.manifest)
