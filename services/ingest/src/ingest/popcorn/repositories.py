"""Problems' folders on this machine, and repositories on the operator's list, fetched with git.

Nothing of them is run here; no link is followed, and none leads out of its root.
"""

import asyncio
import os
import re
import signal
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from shared.errors import Failed, Refused
from shared.problems.task_yml import NAMES

CLONE_S_MAX = 60.0
CLONE_BYTES_MAX = 200_000_000
LOOK_S = 0.2
_BRANCH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/-]{0,99}\Z")


def listed(text: str) -> dict[str, str]:
    """The repositories that an operator allows: names, each with an address if it has its own.

    >>> listed("ada/kernels grace/set=file:///srv/set.git")
    {'ada/kernels': 'https://github.com/ada/kernels.git', 'grace/set': 'file:///srv/set.git'}
    """
    found = {}
    for one in text.replace(",", " ").split():
        name, _, url = one.partition("=")
        found[name.lower()] = url or f"https://github.com/{name}.git"
    return found


@asynccontextmanager
async def cloned(repositories: Mapping[str, str], name: str, branch: str) -> AsyncIterator[Path]:
    """The newest files of a listed repository, until the block is over. Errors: Refused; Failed."""
    url = repositories.get(name.lower())
    if url is None:
        known = ", ".join(sorted(repositories)) or "none: set WARPBOARD_INGEST_REPOSITORIES"
        raise Refused(
            "unknown_repository", f"{name!r} is on no list; there is {known}", "repository"
        )
    if not _BRANCH.match(branch) or ".." in branch:
        raise Refused("bad_branch", f"{branch[:40]!r} is no branch's name", "branch")
    with tempfile.TemporaryDirectory(prefix="warpboard-problems-") as folder:
        target = Path(folder) / "files"
        await _clone(url, branch, target)
        yield target


async def _clone(url: str, branch: str, target: Path) -> None:
    """Errors: Refused, if git refuses; Failed, if it takes too long or brings too much."""
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
    telling = asyncio.create_task(git.communicate())
    try:
        await _watched(telling, target)
        _, said = telling.result()
    finally:
        if git.returncode is None:
            os.killpg(git.pid, signal.SIGKILL)
            await telling
    if git.returncode:
        words = said.decode("utf-8", "replace").strip().splitlines()
        what = words[-1][:300] if words else f"git ended with {git.returncode}"
        raise Refused("bad_repository", f"the repository cannot be fetched: {what}", "repository")


async def _watched(telling: "asyncio.Task[tuple[bytes, bytes]]", target: Path) -> None:
    """Wait for git, as long and as far as it may go. Errors: Failed."""
    for _ in range(round(CLONE_S_MAX / LOOK_S)):
        done, _ = await asyncio.wait({telling}, timeout=LOOK_S)
        if done:
            return
        if await asyncio.to_thread(_size, target) > CLONE_BYTES_MAX:
            raise Failed(f"the repository is over {CLONE_BYTES_MAX:,} bytes")
    raise Failed(f"the repository did not come within {CLONE_S_MAX:.0f} s")


def _size(folder: Path) -> int:
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                total += Path(root, name).lstat().st_size
            except OSError:
                continue
    return total


def directory_in(roots: Sequence[Path], directory: str) -> Path:
    """A problem's folder under one of these. Errors: Refused, if it is none or leads out."""
    if not roots:
        what = "no folder of problems is set here: WARPBOARD_INGEST_PROBLEM_ROOTS names them"
        raise Refused("bad_directory", what, "directory")
    for root in roots if "\0" not in directory else ():
        folder = (root / directory).resolve()
        is_inside = folder.is_relative_to(root.resolve()) and folder != root.resolve()
        if is_inside and any((folder / name).is_file() for name in NAMES):
            return folder
    what = f"{directory[:60]!r} is no folder with a task.yml under the configured roots"
    raise Refused("bad_directory", what, "directory")
