"""Problems as an author names them, compiled here."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from shared.errors import Refused
from shared.problems import compile_problem
from shared.problems.settings import UNSAID, Settings, with_settings
from warpboard.domain.problems import Fields
from warpboard.service.ports import Disk, ProblemFiles


@dataclass(frozen=True)
class Asked:
    """Which problems are meant, by which name if it is one; GPU types for those without any.

    `unchecked` is an operator's reason to publish without a check, `is_strict` makes of each
    warning an error, `is_rejudged` runs what stands on the leaderboards again. `settings` are
    written into their files, `fields` said of their leaderboards.
    """

    folders: Sequence[Path]
    slug: str | None
    as_json: bool
    gpus: tuple[str, ...] = ()
    unchecked: str = ""
    is_strict: bool = False
    is_rejudged: bool = False
    settings: Settings = UNSAID
    fields: Fields = field(default_factory=dict)


def compiled(
    disk: Disk, folder: Path, slug: str | None, gpus: tuple[str, ...], settings: Settings = UNSAID
) -> ProblemFiles:
    """A problem, compiled; on these GPU types if it names none. Errors: Refused, with the folder.

    Where its files name some, others are a matter of its leaderboards, and not another version.
    """
    try:
        return compiled_on(disk, folder, slug, (), settings)
    except Refused as refused:
        if refused.field != "gpus" or not gpus:
            raise
    return compiled_on(disk, folder, slug, gpus, settings)


def compiled_on(
    disk: Disk, folder: Path, slug: str | None, gpus: tuple[str, ...], settings: Settings
) -> ProblemFiles:
    """A problem, compiled on the GPU types of its contest. Errors: Refused, with the folder."""
    try:
        return _with(disk.problem(folder, slug, gpus), settings)
    except Refused as refused:
        raise Refused(refused.code, f"{folder}: {refused.reason}", refused.field) from refused


def _with(problem: ProblemFiles, settings: Settings) -> ProblemFiles:
    """The same with what is said beside its files, which is another version. Errors: Refused."""
    if settings == UNSAID:
        return problem
    files = with_settings(problem.files, settings)
    version = compile_problem(problem.slug, files)
    return replace(
        problem,
        files=files,
        manifest=version.manifest,
        version_files=version.files,
        ranking_by=version.ranking_by,
        warnings=tuple(version.warnings),
    )


def folders_of(disk: Disk, path: Path) -> list[Path]:
    """The problems of a path: those of a contest file, else itself. Errors: Refused."""
    return [Path(one.directory) for one in disk.contest(path)] or [path]


def digest_of(problem: ProblemFiles) -> str:
    """Which version it is."""
    return hashlib.sha256(problem.manifest).hexdigest()


def manifest_of(problem: ProblemFiles) -> Any:
    """What its manifest says."""
    return json.loads(problem.manifest)
