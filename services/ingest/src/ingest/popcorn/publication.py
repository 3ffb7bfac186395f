"""Publishes problems for admins of the client: one folder, or a repository cloned with git.

Only folders on this machine and repositories on the operator's list. Nothing in them is executed;
links are not followed, and no path may leave its root.
"""

import asyncio
import os
import re
import signal
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field

from ingest.popcorn.dependencies import NO_REASON, Dependencies, PopcornRequest
from ingest.problems.rules import Change
from ingest.problems.service import Check, Publication
from shared.api.fields import Visibility
from shared.errors import Failed, Refused
from shared.problem_folders import contest_files, read_problem_files
from shared.problems.compilation import compile_problem
from shared.problems.contest import ContestProblem, add_contest_gpus, read_contest
from shared.problems.task_yml import NAMES

CLONE_S_MAX = 60.0
CLONE_BYTES_MAX = 200_000_000
LOOK_S = 0.2
_BRANCH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/-]{0,99}\Z")

UNCHECKED = "published by the public client's admin routes, which send no report"
DEV = "-dev"
DEV_DAYS = 365
UPDATE_S_MAX = 110.0


def parse_repositories(text: str) -> dict[str, str]:
    """Parse the repositories that an operator allows: names, optionally with a URL.

    >>> parse_repositories("ada/kernels grace/set=file:///srv/set.git")
    {'ada/kernels': 'https://github.com/ada/kernels.git', 'grace/set': 'file:///srv/set.git'}
    """
    urls = {}
    for entry in text.replace(",", " ").split():
        name, _, url = entry.partition("=")
        urls[name.lower()] = url or f"https://github.com/{name}.git"
    return urls


@asynccontextmanager
async def clone_repository(
    repositories: Mapping[str, str], name: str, branch: str
) -> AsyncIterator[Path]:
    """Clone a listed repository for the duration of the block. Raises `Refused` and `Failed`."""
    url = repositories.get(name.lower())
    if url is None:
        known = ", ".join(sorted(repositories)) or "none, set WARPBOARD_INGEST_REPOSITORIES"
        raise Refused(
            "unknown_repository",
            f"{name!r} is not a configured repository; configured: {known}",
            "repository",
        )
    if not _BRANCH.match(branch) or ".." in branch:
        raise Refused("bad_branch", f"{branch[:40]!r} is not a valid branch name", "branch")
    with tempfile.TemporaryDirectory(prefix="warpboard-problems-") as folder:
        target = Path(folder) / "files"
        await _clone(url, branch, target)
        yield target


async def _clone(url: str, branch: str, target: Path) -> None:
    """Raises `Refused` if git fails, and `Failed` if it takes too long or is too large."""
    shallow = ("--depth", "1", "--single-branch", "--no-tags", "--branch", branch)
    environment = {
        "PATH": os.defpath,
        "HOME": str(target.parent),
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_LFS_SKIP_SMUDGE": "1",
    }
    git = await asyncio.create_subprocess_exec(
        "git",
        "clone",
        "--quiet",
        *shallow,
        "--",
        url,
        str(target),
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    communication = asyncio.create_task(git.communicate())
    try:
        await _wait_for_git(communication, target)
        _, error_output = communication.result()
    finally:
        if git.returncode is None:
            os.killpg(git.pid, signal.SIGKILL)
            await communication
    if git.returncode:
        error_lines = error_output.decode("utf-8", "replace").strip().splitlines()
        message = error_lines[-1][:300] if error_lines else f"git exited with {git.returncode}"
        raise Refused("bad_repository", f"the repository cannot be cloned: {message}", "repository")


async def _wait_for_git(communication: "asyncio.Task[tuple[bytes, bytes]]", target: Path) -> None:
    """Wait for git within the limits of time and size. Raises `Failed`."""
    for _ in range(round(CLONE_S_MAX / LOOK_S)):
        finished, _ = await asyncio.wait({communication}, timeout=LOOK_S)
        if finished:
            return
        if await asyncio.to_thread(_folder_bytes, target) > CLONE_BYTES_MAX:
            raise Failed(f"the repository has more than {CLONE_BYTES_MAX:,} bytes")
    raise Failed(f"the repository was not cloned within {CLONE_S_MAX:.0f} s")


def _folder_bytes(folder: Path) -> int:
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                total += Path(root, name).lstat().st_size
            except OSError:
                continue
    return total


def resolve_directory(roots: Sequence[Path], directory: str) -> Path:
    """Return a problem folder under one of the roots. Raises `Refused` if there is none."""
    if not roots:
        message = "no problem folders are configured: set WARPBOARD_INGEST_PROBLEM_ROOTS"
        raise Refused("bad_directory", message, "directory")
    for root in roots if "\0" not in directory else ():
        folder = (root / directory).resolve()
        is_inside = folder.is_relative_to(root.resolve()) and folder != root.resolve()
        if is_inside and any((folder / name).is_file() for name in NAMES):
            return folder
    message = f"{directory[:60]!r} is not a folder with a task.yml under the configured roots"
    raise Refused("bad_directory", message, "directory")


class RepositoryRequest(PopcornRequest):
    """Which problems of a repository to publish; `dry_run` only reports what would happen."""

    repository: str = Field(min_length=1, max_length=200)
    branch: str = Field(default="main", min_length=1, max_length=100)
    force: bool = False
    problem_set: str | None = Field(default=None, max_length=100)
    visibility: Visibility | None = None
    dry_run: bool = False


class CompiledProblem(NamedTuple):
    """A problem of a contest, read and compiled."""

    listed: ContestProblem
    files: Mapping[str, bytes]
    gpus: tuple[str, ...]


async def create_leaderboard(
    deps: Dependencies, directory: str, visibility: str | None, actor: str
) -> str:
    """Publish a folder as a development leaderboard; return its slug.

    Raises `Refused` and `Failed`.
    """
    folder = await asyncio.to_thread(resolve_directory, deps.sources.roots, directory)
    slug = f"{folder.name.lower()}{DEV}"
    try:
        roots = map(Path.resolve, deps.sources.roots)
        root = next(root for root in roots if folder.is_relative_to(root))
        files = await asyncio.to_thread(read_problem_files, folder, root)
        until = deps.clock() + timedelta(days=DEV_DAYS)
        change = Change(NO_REASON, visibility, True, until, is_forced=True)
        await deps.ingest.problems.publish(_build_publication(slug, files, change), actor)
    except Refused as refused:
        raise Refused("bad_directory", refused.reason, "directory") from refused
    return slug


async def update_from_repository(
    deps: Dependencies, request: RepositoryRequest, actor: str
) -> dict[str, Any]:
    """Publish the problems of a repository; return the result for each one.

    Raises `Refused` and `Failed`.
    """
    results: dict[str, list[Any]] = {"created": [], "updated": [], "skipped": [], "errors": []}
    try:
        async with (
            asyncio.timeout(UPDATE_S_MAX),
            clone_repository(
                deps.sources.repositories, request.repository, request.branch
            ) as folder,
        ):
            for name, root, data in await asyncio.to_thread(
                contests_in, folder, request.problem_set
            ):
                await _publish_contest(deps, (name, root, data), request, actor, results)
    except TimeoutError as error:
        message = f"not all problems were published within {UPDATE_S_MAX:.0f} s: try again"
        raise Failed(message) from error
    return results


def contests_in(folder: Path, only: str | None) -> list[tuple[str, Path, bytes]]:
    """Return the contest files of a repository, each with the root of its paths.

    Raises `Refused` (`unknown_problem_set`) if `only` names none of them.
    """
    roots = [candidate for candidate in (folder, folder / "problems") if not candidate.is_symlink()]
    files = [(path, root) for root in roots for path in contest_files(root)]
    contests_found = [
        (path.name, root, path.read_bytes()) for path, root in files if only in (None, path.stem)
    ]
    if only is not None and not contests_found:
        known = ", ".join(sorted({path.stem for path, _ in files})) or "it has none"
        message = f"the repository has no problem set {only!r}: {known}"
        raise Refused("unknown_problem_set", message, "problem_set")
    return contests_found


async def _publish_contest(
    deps: Dependencies,
    file: tuple[str, Path, bytes],
    request: RepositoryRequest,
    actor: str,
    results: dict[str, list[Any]],
) -> None:
    """Publish all problems of a contest, or none if one has an error."""
    name, root, data = file
    compiled: list[CompiledProblem] = []
    errors = []
    try:
        for problem_entry in read_contest(name, data) or ():
            try:
                compiled.append(await asyncio.to_thread(_compile, root, problem_entry))
            except Refused as refused:
                errors.append({"name": problem_entry.slug, "error": refused.reason})
    except Refused as refused:
        errors.append({"name": name, "error": refused.reason})
    results["errors"] += errors
    if errors:
        reason = f"another problem of {name} has an error"
        results["skipped"] += [
            {"name": problem.listed.slug, "reason": reason} for problem in compiled
        ]
        return
    for problem in compiled:
        await _publish_problem(deps, problem, request, actor, results)


def _compile(root: Path, listed: ContestProblem) -> CompiledProblem:
    """Raises `Refused`."""
    folder = resolve_directory((root,), listed.directory)
    files = add_contest_gpus(read_problem_files(folder, root), listed.gpus)
    return CompiledProblem(listed, files, compile_problem(listed.slug, files).gpus)


async def _publish_problem(
    deps: Dependencies,
    problem: CompiledProblem,
    request: RepositoryRequest,
    actor: str,
    results: dict[str, list[Any]],
) -> None:
    """Publish one problem, unless it is a dry run, and add its result."""
    slug = problem.listed.slug
    gpus_before = await _current_gpus(deps, slug)
    dropped_gpus = sorted(set(gpus_before or ()) - set(problem.gpus))
    if dropped_gpus and not request.force:
        reason = f"it would drop the GPU types {', '.join(dropped_gpus)}: send force=true"
        results["skipped"].append({"name": slug, "reason": reason})
        return
    try:
        is_new = await _creates_version(deps, problem, request, actor)
    except Refused as refused:
        results["errors"].append({"name": slug, "error": refused.reason})
        return
    if gpus_before is None:
        results["created"].append(slug)
    elif is_new:
        results["updated"].append(slug)
    else:
        results["skipped"].append({"name": slug, "reason": "no changes"})


async def _creates_version(
    deps: Dependencies, problem: CompiledProblem, request: RepositoryRequest, actor: str
) -> bool:
    """Return whether publishing creates, or would create, a new version.

    Raises `Refused` and `Failed`.
    """
    deadline_at = problem.listed.deadline_at
    is_dated = True if deadline_at is not None else None
    change = Change(NO_REASON, request.visibility, is_dated, deadline_at, is_forced=request.force)
    publication = _build_publication(problem.listed.slug, problem.files, change)
    if request.dry_run:
        return await deps.ingest.problems.would_create_version(publication, actor)
    return (await deps.ingest.problems.publish(publication, actor)).is_new


async def _current_gpus(deps: Dependencies, slug: str) -> list[str] | None:
    try:
        return (await deps.ingest.intake.published(slug)).gpus
    except Refused:
        return None


def _build_publication(slug: str, files: Mapping[str, bytes], change: Change) -> Publication:
    """Return a problem as an operator publishes it; the client sends no report."""
    return Publication(slug, files, Check(unchecked=UNCHECKED), change=change, is_operator=True)
