"""Problems as they lie on a disk, read to be compiled: no link is followed and nothing is run."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from shared.errors import Refused
from shared.problems.contest import SUFFIXES, Listed, contest
from shared.problems.document import YAML_BYTES_MAX, bad_problem, read_document
from shared.problems.sources import above
from shared.problems.task_yml import NAMES

FILES_MAX = 256
FILES_BYTES_MAX = 16 * 1024 * 1024
CONTESTS_MAX = 200
LEVELS_MAX = 4
FILE_BYTES_MAX = 1_000_000
# A problem is published without what answers it.
SKIPPED = ("solutions", "__pycache__")


def problem_files(folder: Path, root: Path | None = None) -> dict[str, bytes]:
    """The files of a problem by their paths from its folder, and those above it that it names.

    A problem that is one file is that file. `root` is the folder that none may lie outside of;
    without one it is that of its contest. Errors: Refused `bad_problem`.
    """
    if folder.is_file():
        return {folder.name: _contents(folder, FILE_BYTES_MAX)}
    if not folder.is_dir():
        raise bad_problem(f"{folder} is neither a directory nor a file")
    shelf = _Shelf(folder)
    for path in _walk(folder):
        shelf.put(path.relative_to(folder).as_posix(), path)
    inside = (root or root_of(folder)).resolve()
    for name in NAMES:
        for source in above(read_document(name, shelf.files[name])) if name in shelf.files else ():
            shared = _plain(folder, source)
            # What is not there, or no part of the set, is named by who compiles the problem.
            if shared is not None and shared.is_relative_to(inside):
                shelf.put(source, shared)
    return shelf.files


def root_of(folder: Path) -> Path:
    """The folder of the contest that a problem lies in, a few levels up; else its own."""
    here = folder.resolve()
    for one in (here, *here.parents)[: LEVELS_MAX + 1]:
        if contest_files(one):
            return one
    return here


def listed(folder: Path) -> Listed | None:
    """What the contest files around a problem say of it; None if it is in none of them.

    Errors: Refused, for a contest file that cannot be used.
    """
    if folder.is_file():
        return None
    here, root = folder.resolve(), root_of(folder)
    for file in contest_files(root):
        for one in contest(file.name, _contents(file)) or ():
            if (root / one.directory).resolve() == here:
                return one
    return None


def contest_files(folder: Path) -> list[Path]:
    """The contest files of a folder, by their look."""
    paths = sorted(path for end in SUFFIXES for path in folder.glob(f"*{end}"))
    return [path for path in paths[:CONTESTS_MAX] if _is_contest(path)]


def task_folders(root: Path) -> list[Path]:
    """Every folder beneath a root that holds a task file."""
    found = []
    for where, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if _is_part(name))
        if any(name in names for name in NAMES):
            found.append(Path(where))
    return found


class _Shelf:
    """Takes a problem's files in, so many and so large at most."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._left = FILES_BYTES_MAX
        self.files: dict[str, bytes] = {}

    def put(self, name: str, path: Path) -> None:
        if len(self.files) == FILES_MAX:
            raise bad_problem(f"{self._folder} has over {FILES_MAX} files: leave the others out")
        data = _contents(path, self._left)
        self._left -= len(data)
        if self._left < 0:
            raise bad_problem(f"{self._folder} has over {FILES_BYTES_MAX:,} bytes: leave some out")
        self.files[name] = data


def _walk(folder: Path) -> Iterator[Path]:
    """The files of a problem, in order; what is neither file nor folder is no part of it."""
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if _is_part(name))
        paths = (Path(where) / name for name in sorted(names) if _is_part(name))
        yield from (path for path in paths if path.is_file() and not path.is_symlink())


def _is_part(name: str) -> bool:
    return not name.startswith(".") and name not in SKIPPED


def _plain(folder: Path, source: str) -> Path | None:
    """The file at a path that goes up, unless a link is on its way."""
    try:
        path = (folder.resolve() / source).resolve()
        plain = Path(os.path.normpath(folder.resolve() / source))
        return path if path == plain and path.is_file() else None
    except (OSError, ValueError):
        return None


def _contents(path: Path, bytes_max: int = YAML_BYTES_MAX) -> bytes:
    """A file's bytes, one more than may be at most."""
    try:
        with path.open("rb") as opened:
            return opened.read(bytes_max + 1)
    except OSError as error:
        raise Refused("unreadable", f"{path} cannot be read: {error.strerror}") from error


def _is_contest(path: Path) -> bool:
    if path.is_symlink() or not path.is_file() or path.name in NAMES:
        return False
    with suppress(Refused):
        head = _contents(path)
        return head.startswith(b"problems:") or b"\nproblems:" in head
    return False
