"""Compile problems on this machine, as an author names them."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shared.errors import Refused
from shared.problems.compilation import compile_problem
from shared.problems.warpboard_yml import NO_SETTINGS, PublishSettings, apply_settings
from warpboard.service.ports import Disk, Fields, ProblemFiles


@dataclass(frozen=True)
class ProblemOptions:
    """Which problems, the name if it is a single one, and GPU types for problems without any.

    `unchecked` is an operator's reason to publish without a check, `is_strict` turns warnings into
    errors, `is_rejudged` runs the entries of the leaderboards again, and `is_forced` may drop GPU
    types with entries and accepts a deadline that is over. `settings` are written into the files;
    `fields` are settings of the leaderboards.
    """

    folders: Sequence[Path]
    slug: str | None
    gpus: tuple[str, ...] = ()
    unchecked: str = ""
    is_strict: bool = False
    is_rejudged: bool = False
    is_dry: bool = False
    is_forced: bool = False
    settings: PublishSettings = NO_SETTINGS
    fields: Fields = field(default_factory=dict)


def compile_folder(
    disk: Disk,
    folder: Path,
    slug: str | None,
    gpus: tuple[str, ...],
    settings: PublishSettings = NO_SETTINGS,
) -> ProblemFiles:
    """Compile a problem, on these GPU types if it names none. Raises Refused and names the folder.

    If its files name GPU types, others only concern its leaderboards, not its version.
    """
    try:
        return compile_for_gpus(disk, folder, slug, (), settings)
    except Refused as refused:
        if refused.field != "gpus" or not gpus:
            raise
    return compile_for_gpus(disk, folder, slug, gpus, settings)


def compile_for_gpus(
    disk: Disk, folder: Path, slug: str | None, gpus: tuple[str, ...], settings: PublishSettings
) -> ProblemFiles:
    """Compile a problem for the GPU types of its contest. Raises Refused and names the folder."""
    try:
        problem = disk.problem(folder, slug, gpus)
        if settings == NO_SETTINGS:
            return problem
        return compile_files(problem.slug, apply_settings(problem.files, settings))
    except Refused as refused:
        raise Refused(refused.code, f"{folder}: {refused.reason}", refused.field) from refused


def compile_files(slug: str, files: Mapping[str, bytes]) -> ProblemFiles:
    """Compile the files of a problem. Raises Refused."""
    version = compile_problem(slug, files)
    return ProblemFiles(
        slug=slug,
        files=files,
        manifest=version.manifest,
        version_files=version.files,
        ranking_by=version.ranking_by,
        warnings=tuple(version.warnings),
    )


def problem_digest(problem: ProblemFiles) -> str:
    """Return the digest that names a problem's version."""
    return hashlib.sha256(problem.manifest).hexdigest()


def parse_manifest(problem: ProblemFiles) -> Any:
    """Return a problem's manifest."""
    return json.loads(problem.manifest)
