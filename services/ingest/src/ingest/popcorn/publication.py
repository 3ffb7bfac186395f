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
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from pydantic import Field

from ingest.popcorn.dependencies import NO_REASON, Dependencies, PopcornRequest
from ingest.popcorn.response_models import RepositoryUpdateResult
from ingest.problems.commands import Change, Check, Publication
from shared.api.fields import Visibility
from shared.errors import Failed, Refused
from shared.problem_folders import competition_files, read_problem_files
from shared.problems.competition import CompetitionProblem, add_competition_gpus, read_competition
from shared.problems.compilation import compile_problem
from shared.problems.task_yml import NAMES

CLONE_S_MAX = 60.0
CLONE_BYTES_MAX = 200_000_000
LOOK_S = 0.2
_BRANCH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/-]{0,99}\Z")
_CLONE = ("git", "clone", "--quiet", "--depth", "1", "--single-branch", "--no-tags", "--branch")
NO_CHECK = (
    "the public client sends no check report: use `warpboard problem publish`, or say why there is "
    "none, in `unchecked` or in the setting WARPBOARD_INGEST_POPCORN_UNCHECKED"
)
DEV = "-dev"
DEV_DAYS = 365
UPDATE_S_MAX = 110.0
UNCHECKED_LENGTH_MAX = 400


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
        message = f"{name!r} is not a configured repository; configured: {known}"
        raise Refused("unknown_repository", message, "repository")
    if not _BRANCH.match(branch) or ".." in branch:
        raise Refused("bad_branch", f"{branch[:40]!r} is not a valid branch name", "branch")
    with tempfile.TemporaryDirectory(prefix="warpboard-problems-") as folder:
        target = Path(folder) / "files"
        await _clone(url, branch, target)
        yield target


async def _clone(url: str, branch: str, target: Path) -> None:
    """Raises `Refused` if git fails, and `Failed` if it takes too long or is too large."""
    environment = {
        "PATH": os.defpath,
        "HOME": str(target.parent),
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_LFS_SKIP_SMUDGE": "1",
    }
    git = await asyncio.create_subprocess_exec(
        *(*_CLONE, branch, "--", url, str(target)),
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    communication = asyncio.create_task(git.communicate())
    try:
        for _ in range(round(CLONE_S_MAX / LOOK_S)):
            finished, _ = await asyncio.wait({communication}, timeout=LOOK_S)
            if finished:
                break
            if await asyncio.to_thread(_folder_bytes, target) > CLONE_BYTES_MAX:
                raise Failed(f"the repository has more than {CLONE_BYTES_MAX:,} bytes")
        else:
            raise Failed(f"the repository was not cloned within {CLONE_S_MAX:.0f} s")
        _, error_output = communication.result()
    finally:
        if git.returncode is None:
            os.killpg(git.pid, signal.SIGKILL)
            await communication
    if git.returncode:
        error_lines = error_output.decode("utf-8", "replace").strip().splitlines()
        message = error_lines[-1][:300] if error_lines else f"git exited with {git.returncode}"
        raise Refused("bad_repository", f"the repository cannot be cloned: {message}", "repository")


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


class DirectoryRequest(PopcornRequest):
    """The folder of a problem, and why there is no check; the client sends only the folder."""

    directory: str = Field(min_length=1, max_length=200)
    visibility: Visibility | None = None
    unchecked: str = Field(default="", max_length=UNCHECKED_LENGTH_MAX)


async def create_leaderboard(deps: Dependencies, request: DirectoryRequest, actor: str) -> str:
    """Publish a folder as a development leaderboard; return its slug.

    Raises `Refused` and `Failed`.
    """
    folder = await asyncio.to_thread(resolve_directory, deps.problem_roots, request.directory)
    check = _make_check(deps, request.unchecked)
    slug = f"{folder.name.lower()}{DEV}"
    roots = map(Path.resolve, deps.problem_roots)
    root = next(root for root in roots if folder.is_relative_to(root))
    until = deps.clock() + timedelta(days=DEV_DAYS)
    change = Change(NO_REASON, request.visibility, True, until, is_forced=True)
    try:
        files = await asyncio.to_thread(read_problem_files, folder, root)
        await deps.ingest.problems.publish(_build_publication(slug, files, check, change), actor)
    except Refused as refused:
        raise Refused("bad_directory", refused.reason, "directory") from refused
    return slug


def competitions_in(folder: Path, only: str | None) -> list[tuple[str, Path, bytes]]:
    """Return the competition files of a repository, each with the root of its paths.

    Raises `Refused` (`unknown_problem_set`) if `only` names none of them.
    """
    roots = [candidate for candidate in (folder, folder / "problems") if not candidate.is_symlink()]
    files = [(path, root) for root in roots for path in competition_files(root)]
    competitions = [
        (path.name, root, path.read_bytes()) for path, root in files if only in (None, path.stem)
    ]
    if only is not None and not competitions:
        known = ", ".join(sorted({path.stem for path, _ in files})) or "it has none"
        message = f"the repository has no problem set {only!r}: {known}"
        raise Refused("unknown_problem_set", message, "problem_set")
    return competitions


class RepositoryRequest(PopcornRequest):
    """Which problems of a repository to publish, and why without a check.

    `dry_run` only reports what would happen.
    """

    repository: str = Field(min_length=1, max_length=200)
    branch: str = Field(default="main", min_length=1, max_length=100)
    force: bool = False
    problem_set: str | None = Field(default=None, max_length=100)
    visibility: Visibility | None = None
    dry_run: bool = False
    unchecked: str = Field(default="", max_length=UNCHECKED_LENGTH_MAX)


@dataclass(frozen=True)
class RepositoryUpdate:
    """Publishes the problems of a repository."""

    deps: Dependencies
    request: RepositoryRequest
    actor: str
    results: RepositoryUpdateResult = field(
        default_factory=lambda: RepositoryUpdateResult(
            status="ok", created=[], updated=[], skipped=[], errors=[]
        )
    )

    async def run(self) -> RepositoryUpdateResult:
        """Return the result for each problem. Raises `Refused` and `Failed`."""
        repository, branch = self.request.repository, self.request.branch
        clone = clone_repository(self.deps.repositories, repository, branch)
        try:
            async with asyncio.timeout(UPDATE_S_MAX), clone as folder:
                check = _make_check(self.deps, self.request.unchecked)
                problem_set = self.request.problem_set
                for competition in await asyncio.to_thread(competitions_in, folder, problem_set):
                    await self._publish_competition(check, *competition)
        except TimeoutError as error:
            message = f"not all problems were published within {UPDATE_S_MAX:.0f} s: try again"
            raise Failed(message) from error
        return self.results

    async def _publish_competition(self, check: Check, name: str, root: Path, data: bytes) -> None:
        """Publish all problems of a competition, or none if one has an error."""
        compiled = []
        errors = len(self.results["errors"])
        try:
            for problem in read_competition(name, data) or ():
                try:
                    compiled.append((problem, *await asyncio.to_thread(_compile, root, problem)))
                except Refused as refused:
                    self._add_error(problem.slug, refused)
        except Refused as refused:
            self._add_error(name, refused)
        has_errors = len(self.results["errors"]) > errors
        for problem, files, gpus in compiled:
            if has_errors:
                self._skip(problem.slug, f"another problem of {name} has an error")
            else:
                await self._publish_problem(check, problem, files, gpus)

    async def _publish_problem(
        self,
        check: Check,
        problem: CompetitionProblem,
        files: Mapping[str, bytes],
        gpus: tuple[str, ...],
    ) -> None:
        """Publish one problem, unless it is a dry run, and add its result."""
        slug, force = problem.slug, self.request.force
        try:
            gpus_before = (await self.deps.ingest.intake.published(slug)).gpus
        except Refused:
            gpus_before = None
        if (dropped_gpus := sorted(set(gpus_before or ()) - set(gpus))) and not force:
            dropped = ", ".join(dropped_gpus)
            self._skip(slug, f"it would drop the GPU types {dropped}: send force=true")
            return
        is_dated = True if problem.deadline_at is not None else None
        visibility = self.request.visibility
        change = Change(NO_REASON, visibility, is_dated, problem.deadline_at, is_forced=force)
        publication = _build_publication(slug, files, check, change)
        problems = self.deps.ingest.problems
        try:
            if self.request.dry_run:
                is_new = await problems.would_create_version(publication, self.actor)
            else:
                is_new = (await problems.publish(publication, self.actor)).is_new
        except Refused as refused:
            self._add_error(slug, refused)
            return
        if gpus_before is None:
            self.results["created"].append(slug)
        elif is_new:
            self.results["updated"].append(slug)
        else:
            self._skip(slug, "no changes")

    def _skip(self, slug: str, reason: str) -> None:
        self.results["skipped"].append({"name": slug, "reason": reason})

    def _add_error(self, name: str, refused: Refused) -> None:
        self.results["errors"].append({"name": name, "error": refused.reason})


def _compile(
    root: Path, problem: CompetitionProblem
) -> tuple[Mapping[str, bytes], tuple[str, ...]]:
    """Return the files and the GPU types of a problem. Raises `Refused`."""
    folder = resolve_directory((root,), problem.directory)
    files = add_competition_gpus(read_problem_files(folder, root), problem.gpus)
    return files, compile_problem(problem.slug, files).gpus


def _make_check(deps: Dependencies, reason: str) -> Check:
    """Return the reason why nothing is checked. Raises `Refused` (`check_missing`) without one."""
    if not (reason or deps.unchecked):
        raise Refused("check_missing", NO_CHECK, "unchecked")
    return Check(unchecked=reason or deps.unchecked)


def _build_publication(
    slug: str, files: Mapping[str, bytes], check: Check, change: Change
) -> Publication:
    """Return a problem as an operator publishes it."""
    return Publication(slug, files, check, change=change, is_operator=True)
