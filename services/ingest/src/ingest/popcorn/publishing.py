"""Problems made leaderboards by an admin: one folder, or what a repository holds."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from ingest.domain.problems import Change
from ingest.popcorn import repositories
from ingest.popcorn.parts import NO_REASON, Parts
from ingest.service.authors import Check, Publication
from shared.errors import Failed, Refused
from shared.folders import contest_files, problem_files
from shared.problems import compile_problem
from shared.problems.contest import Listed, contest, with_gpus

UNCHECKED = "published by the public client's admin routes, which send no report"
DEV = "-dev"
DEV_DAYS = 365
UPDATE_S_MAX = 110.0


@dataclass(frozen=True)
class Sources:
    """Where an operator lets problems come from; empty is from nowhere."""

    roots: tuple[Path, ...] = ()
    repositories: Mapping[str, str] = field(default_factory=dict)


class Wanted(Protocol):
    """Which problems of a repository are published."""

    repository: str
    branch: str
    force: bool
    problem_set: str | None
    visibility: Any
    dry_run: bool


class Ready(NamedTuple):
    """A problem of a contest, read and compiled."""

    listed: Listed
    files: Mapping[str, bytes]
    gpus: tuple[str, ...]


async def create(
    parts: Parts, sources: Sources, directory: str, visibility: str | None, actor: str
) -> str:
    """A leaderboard to develop on, of one folder; its slug. Errors: Refused; Failed."""
    folder = await asyncio.to_thread(repositories.directory_in, sources.roots, directory)
    slug = f"{folder.name.lower()}{DEV}"
    try:
        files = await asyncio.to_thread(problem_files, folder, _root(sources.roots, folder))
        until = parts.clock() + timedelta(days=DEV_DAYS)
        change = Change(NO_REASON, visibility, True, until, is_forced=True)
        await parts.ingest.authors.publish(_publication(slug, files, change), actor)
    except Refused as refused:
        raise Refused("bad_directory", refused.reason, "directory") from refused
    return slug


async def update(parts: Parts, sources: Sources, wanted: Wanted, actor: str) -> dict[str, Any]:
    """What came of every problem of a repository. Errors: Refused; Failed."""
    told: dict[str, list[Any]] = {"created": [], "updated": [], "skipped": [], "errors": []}
    try:
        async with (
            asyncio.timeout(UPDATE_S_MAX),
            repositories.cloned(sources.repositories, wanted.repository, wanted.branch) as folder,
        ):
            for name, root, data in await asyncio.to_thread(
                contests_in, folder, wanted.problem_set
            ):
                await _contest(parts, (name, root, data), wanted, actor, told)
    except TimeoutError as error:
        what = f"not all problems were published within {UPDATE_S_MAX:.0f} s: ask again"
        raise Failed(what) from error
    return told


def contests_in(folder: Path, only: str | None) -> list[tuple[str, Path, bytes]]:
    """The contest files of a repository, each with the folder that its paths begin at.

    Errors: Refused `unknown_problem_set` where `only` names none of them.
    """
    roots = [one for one in (folder, folder / "problems") if not one.is_symlink()]
    files = [(path, root) for root in roots for path in contest_files(root)]
    found = [
        (path.name, root, path.read_bytes()) for path, root in files if only in (None, path.stem)
    ]
    if only is not None and not found:
        known = ", ".join(sorted({path.stem for path, _ in files})) or "it has none at all"
        what = f"the repository has no problem set {only!r}: {known}"
        raise Refused("unknown_problem_set", what, "problem_set")
    return found


def _root(roots: Sequence[Path], folder: Path) -> Path:
    """Which of the operator's folders a problem lies in."""
    return next(one for one in map(Path.resolve, roots) if folder.is_relative_to(one))


async def _contest(
    parts: Parts,
    file: tuple[str, Path, bytes],
    wanted: Wanted,
    actor: str,
    told: dict[str, list[Any]],
) -> None:
    """Publish all problems of a contest, or none: an error in one keeps the others back."""
    name, root, data = file
    ready: list[Ready] = []
    errors = []
    try:
        for listed in contest(name, data) or ():
            try:
                ready.append(await asyncio.to_thread(_read, root, listed))
            except Refused as refused:
                errors.append({"name": listed.slug, "error": refused.reason})
    except Refused as refused:
        errors.append({"name": name, "error": refused.reason})
    told["errors"] += errors
    if errors:
        reason = f"another problem of {name} has an error"
        told["skipped"] += [{"name": one.listed.slug, "reason": reason} for one in ready]
        return
    for one in ready:
        await _publish(parts, one, wanted, actor, told)


def _read(root: Path, one: Listed) -> Ready:
    """Errors: Refused."""
    folder = repositories.directory_in((root,), one.directory)
    files = with_gpus(problem_files(folder, root), one.gpus)
    return Ready(one, files, compile_problem(one.slug, files).gpus)


async def _publish(
    parts: Parts, one: Ready, wanted: Wanted, actor: str, told: dict[str, list[Any]]
) -> None:
    """Publish one problem, unless it is a dry run, and say under which head it is told of."""
    slug = one.listed.slug
    before = await _gpus_of(parts, slug)
    dropped = sorted(set(before or ()) - set(one.gpus))
    if dropped and not wanted.force:
        reason = f"it would drop the GPU types {', '.join(dropped)}: say force"
        told["skipped"].append({"name": slug, "reason": reason})
        return
    try:
        is_new = await _is_new(parts, one, wanted, actor)
    except Refused as refused:
        told["errors"].append({"name": slug, "error": refused.reason})
        return
    if before is None:
        told["created"].append(slug)
    elif is_new:
        told["updated"].append(slug)
    else:
        told["skipped"].append({"name": slug, "reason": "no changes"})


async def _is_new(parts: Parts, one: Ready, wanted: Wanted, actor: str) -> bool:
    """Whether publishing it made, or dry would make, a new version. Errors: Refused; Failed."""
    until = one.listed.deadline_at
    is_dated = True if until is not None else None
    change = Change(NO_REASON, wanted.visibility, is_dated, until, is_forced=wanted.force)
    publication = _publication(one.listed.slug, one.files, change)
    if wanted.dry_run:
        return await parts.ingest.authors.is_news(publication, actor)
    return (await parts.ingest.authors.publish(publication, actor)).is_new


async def _gpus_of(parts: Parts, slug: str) -> list[str] | None:
    try:
        return (await parts.ingest.intake.published(slug)).gpus
    except Refused:
        return None


def _publication(slug: str, files: Mapping[str, bytes], change: Change) -> Publication:
    """A problem as an operator's client sends it: that client knows of no report."""
    return Publication(slug, files, Check(unchecked=UNCHECKED), change=change, is_operator=True)
