"""Files named on the command line: sources, problems, competitions, solutions, downloads."""

import os
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from importlib.resources import files as package_files
from pathlib import Path
from stat import S_ISREG
from string import Template
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from shared.checks.problem_files import (
    KINDS,
    SOLUTIONS,
    Solutions,
    is_solution,
    split_solutions,
)
from shared.errors import Refused
from shared.private_files import create_private_folder, open_private
from shared.problem_versions import LEVEL, LEVEL_FILES, own_slug, slug_of
from shared.source_files import OTHER_SUFFIXES, SourceFile, choose_entry

# What compiles problems imports pydantic, which most commands do without.
if TYPE_CHECKING:
    from shared.problems.competition import CompetitionProblem

# The limit of files of problems and competitions; a submission's limit is the platform's own.
FILE_BYTES_MAX = 16 * 1024 * 1024
DOWNLOAD_BYTES_MAX = 64 * 1024 * 1024
# How many files of a submitted folder are looked at.
FOLDER_FILES_MAX = 1000
# The folder with the problem beside a kernel, as `warpboard init` makes it.
READ_FOLDER = "problem"
PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}\Z")
# When each file was changed, and its size.
FileStates = dict[Path, tuple[int, int]]


def decode_source(source: bytes) -> str:
    """Decode a source. Raises Refused `not_utf8`."""
    try:
        return source.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Refused(
            "not_utf8", f"the file is not UTF-8 text: byte {error.start} cannot be read", "file"
        ) from error


def read_source(file: Path) -> bytes:
    """Return a submission's source. Raises Refused."""
    from shared.problems.warpboard_yml import SOURCE_BYTES_MAX

    return _read_bytes(file, SOURCE_BYTES_MAX)


def read_submission(*paths: Path) -> tuple[SourceFile, ...]:
    """Return the files of a submission, the entry file first: of some paths, or of one folder.

    The others are named relative to the folder of the entry file. A FlashInfer-Trace solution is
    converted. Raises Refused.
    """
    if len(paths) == 1 and paths[0].is_dir():
        paths = _list_submission(paths[0])
    entry, *others = paths
    source = read_source(entry)
    if entry.suffix != ".json":
        return SourceFile(entry.name, source), *(_read_other(file, entry) for file in others)
    if others:
        reason = f"{entry} is a solution of FlashInfer-Trace with all its files: name it alone"
        raise Refused("bad_file", reason, "FILES")
    from shared.problems.flashinfer_solutions import convert_solution

    return (SourceFile(f"{entry.stem}.py", convert_solution(source)),)


def _read_other(file: Path, entry: Path) -> SourceFile:
    """Return a file beside the entry file. Raises Refused."""
    folder = Path(os.path.abspath(entry)).parent  # noqa: PTH100  (links keep their names)
    try:
        name = Path(os.path.abspath(file)).relative_to(folder).as_posix()  # noqa: PTH100
    except ValueError as error:
        reason = f"{file} is not beside the entry file {entry.name}: move it into {folder}"
        raise Refused("bad_file_name", reason, "FILES") from error
    if file.is_dir():
        reason = f"{file} is a folder: name its files, or the folder of all files alone"
        raise Refused("bad_file", reason, "FILES")
    return SourceFile(name, read_source(file))


def _list_submission(folder: Path) -> tuple[Path, ...]:
    """Return the files of a folder that submissions may have, the entry file first. Raises Refused.

    Hidden files, the problem that `warpboard init` put there, and what else is no source, such as a
    README.md, are left out.
    """
    all_paths = list[Path]()
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__pycache__")))
        if Path(parent) == folder and READ_FOLDER in folders:
            folders.remove(READ_FOLDER)
        all_paths += [Path(parent, name) for name in sorted(names) if not name.startswith(".")]
        if len(all_paths) > FOLDER_FILES_MAX:
            reason = f"{folder} has over {FOLDER_FILES_MAX} files: name those to submit"
            raise Refused("too_many_files", reason, "FILES")
    paths = [path for path in all_paths if path.name.endswith(OTHER_SUFFIXES)]
    names = [path.relative_to(folder).as_posix() for path in paths]
    try:
        entry = folder / choose_entry(str(folder), names)
    except Refused as refused:
        reason = f"{refused.reason}, or name it first"
        raise Refused(refused.code, reason, "FILES") from refused
    return entry, *(path for path in paths if path != entry)


def load_competition(file: Path) -> "list[CompetitionProblem]":
    """Return the problems that a competition file lists, with full paths, or those of a level.

    A level is a folder of KernelBench, such as `level1`. Empty for other paths. Raises Refused.
    """
    from shared.problems.competition import SUFFIXES, CompetitionProblem, read_competition

    if is_level(file):
        return [
            CompetitionProblem(own_slug(path.resolve()), str(path), None, ())
            for path in sorted(
                file.glob(LEVEL_FILES), key=lambda path: int(path.name.partition("_")[0])
            )
        ]
    if file.suffix not in SUFFIXES or not file.is_file():
        return []
    entries = read_competition(file.name, _read_bytes(file, FILE_BYTES_MAX))
    if not entries:
        raise Refused("bad_problem", f"{file} lists no problems: write problems: [...]")
    return [entry._replace(directory=str(file.parent / entry.directory)) for entry in entries]


class ContestFiles(NamedTuple):
    """A `contest.yml`, and the files beside it that it names."""

    contest_yml: bytes
    others: dict[str, bytes]


def read_contest_files(path: Path) -> ContestFiles:
    """Return the files of a contest, of which the path is the folder or the file. Raises Refused.

    A file that is missing is left out, which the reader of `contest.yml` explains.
    """
    from shared.problems.contest_yml import NAME, terms_name

    file = path / NAME if path.is_dir() else path
    if not file.is_file():
        how = f"write it, or let `warpboard contest init {path}` do so"
        raise Refused("bad_contest", f"{file} does not exist: {how}", "path")
    contest_yml = _read_bytes(file, FILE_BYTES_MAX)
    terms = file.parent / terms_name(contest_yml)
    others = {terms.name: _read_bytes(terms, FILE_BYTES_MAX)} if terms.is_file() else {}
    return ContestFiles(contest_yml, others)


def create_contest_files(
    folder: Path, problems: Sequence[str], organiser: str, at: datetime, *, is_now: bool
) -> list[Path]:
    """Write a `contest.yml` and its terms for these problems (`SLUG` or `SLUG:GPU`); return them.

    With `is_now` the main round has begun, else the registration begins a day later. Raises Refused
    if there is one already.
    """
    from shared.problems.contest_yml import NAME

    if (folder / NAME).exists():
        raise Refused("bad_contest", f"{folder / NAME} exists: edit it, or name another folder")
    start_at = at.replace(second=0, microsecond=0) - timedelta(minutes=1)
    gap, days = timedelta(minutes=1), 14
    if not is_now:
        start_at, gap = start_at.replace(hour=0, minute=0) + timedelta(days=1), timedelta(days=7)
    main_at = start_at + gap
    instants = {
        "registration": start_at,
        "main": main_at,
        "freeze": main_at + timedelta(days=days - 1),
        "review": main_at + timedelta(days=days),
        "archive": main_at + timedelta(days=days + 7),
    }
    entries = []
    for problem in problems:
        slug, _, gpu = problem.partition(":")
        entries.append(f"  - slug: {slug}" + (f"\n    gpu: {gpu}" if gpu else ""))
    template = package_files("warpboard").joinpath("templates", "contest")
    values = {name: f"{at:%Y-%m-%d %H:%M}" for name, at in instants.items()}
    values |= {"slug": folder.name.lower(), "organiser": organiser, "problems": "\n".join(entries)}
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name in (NAME, "terms.md"):
        text = Template(template.joinpath(name).read_text(encoding="utf-8")).substitute(values)
        (folder / name).write_text(text, encoding="utf-8")
        paths.append(folder / name)
    return paths


def list_problems(paths: Iterable[Path]) -> list[Path]:
    """Return the problems at paths, where a competition file stands for all of its own.

    Raises Refused.
    """
    problems: list[Path] = []
    for path in paths:
        problems += [Path(entry.directory) for entry in load_competition(path)] or [path]
    return problems


def read_file_states(paths: Iterable[Path]) -> FileStates:
    """Return the states of all files of the problems at paths, as far as they can be read."""
    from shared.problem_folders import read_problem_files

    files = set(paths)
    with suppress(Refused):
        files.update(list_problems(paths))
    for problem in tuple(files):
        folder = problem.parent / "solutions" if problem.is_file() else problem
        for place, folders, names in os.walk(folder):
            folders[:] = [name for name in folders if not name.startswith((".", "__pycache__"))]
            files.update(Path(place, name) for name in names if not name.startswith("."))
        with suppress(Refused):
            # Among these are files above the folder.
            files.update(problem / name for name in read_problem_files(problem))
    states: FileStates = {}
    for file in files:
        with suppress(OSError):
            status = file.stat()
            if S_ISREG(status.st_mode):
                states[file] = (status.st_mtime_ns, status.st_size)
    return states


def is_level(folder: Path) -> bool:
    """Return whether a folder is a level of KernelBench."""
    is_named = LEVEL.match(folder.resolve().name) is not None and folder.is_dir()
    return is_named and any(folder.glob(LEVEL_FILES))


def find_level(folder: Path, level: int) -> Path:
    """Return the folder of a level of a KernelBench checkout. Raises Refused."""
    for base in (folder, folder / "KernelBench"):
        if is_level(base / f"level{level}"):
            return base / f"level{level}"
    raise Refused("bad_problem", f"{folder} holds no level{level} of KernelBench")


def find_named_problem(name: str, checkout: Path | None) -> Path:
    """Return a problem's path: its own, or in a checkout that of the problem with this name.

    Names of KernelBench are `level1/19_ReLU`, `19_ReLU` and the slug, those of FlashInfer-Trace the
    names of definitions. Raises Refused.
    """
    if checkout is None:
        if not Path(name).exists():
            reason = (
                f"there is no problem {name} here; with --checkout DIR it may be a name, and with "
                "--url URL it is a problem of that platform"
            )
            raise Refused("unknown_problem", reason, "PROBLEM")
        return Path(name)
    definitions = [path for path in checkout.glob("definitions/**/*.json") if path.stem == name]
    levels = [path for level in checkout.glob("**/level[1-9]") for path in level.glob(LEVEL_FILES)]
    paths = definitions + [path for path in levels if name in _kernelbench_names(path)]
    if not paths:
        raise Refused("unknown_problem", f"{checkout} has no problem {name}", "PROBLEM")
    if len(paths) > 1:
        places = " or ".join(f"{path.parent.name}/{path.stem}" for path in sorted(paths)[:4])
        raise Refused("unknown_problem", f"{name} is not one problem: say {places}", "PROBLEM")
    return paths[0]


def _kernelbench_names(path: Path) -> tuple[str, ...]:
    return path.stem, f"{path.parent.name}/{path.stem}", own_slug(path)


def load_all_solutions(folder: Path) -> list[Solutions]:
    """Return the solutions of every problem directory in a folder. Raises Refused."""
    problems = sorted(task.parent for task in folder.glob("*/task.yml"))
    if not problems:
        raise Refused("bad_problem", f"{folder} holds no problem directory")
    return [load_solutions(problem, slug_of(problem.name)) for problem in problems]


def load_solutions(problem: Path, slug: str) -> Solutions:
    """Return the solutions of one problem, as far as there are any. Raises Refused."""
    root = problem.parent if problem.is_file() else problem
    paths = [path for kind in KINDS for path in sorted((root / SOLUTIONS / kind).rglob("*"))]
    names = {path.relative_to(root).as_posix(): path for path in paths if path.is_file()}
    files = {
        name: _read_bytes(path, FILE_BYTES_MAX) for name, path in names.items() if is_solution(name)
    }
    return split_solutions(slug, files)[1]


def read_template(name: str) -> str:
    """Return a template that comes with the command line."""
    return (package_files("warpboard") / "templates" / name).read_text(encoding="utf-8")


def write_file(file: Path, data: bytes, *, is_private: bool = True) -> None:
    """Write a file completely or not at all. Raises Refused.

    Only its owner can read it, unless it has nothing of a submission or of the platform.
    """
    with _open_replacement(file, is_private=is_private) as part:
        part.write(data)


def write_files(folder: Path, files: Mapping[str, bytes], *, is_private: bool = True) -> None:
    """Write files into a folder, which is created if necessary. Raises Refused."""
    for name, data in files.items():
        _create_folder((folder / name).parent, is_private=is_private)
        write_file(folder / name, data, is_private=is_private)


async def save_download(folder: Path, name: str, pieces: AsyncIterator[bytes]) -> Path:
    """Save a download completely or not at all, and return its path. Raises Refused."""
    remaining_bytes = DOWNLOAD_BYTES_MAX
    if not PLAIN_NAME.match(name):
        raise Refused("bad_file", f"{name!r} is no plain name: it is not saved")
    _create_folder(folder)
    with _open_replacement(folder / name) as part:
        async for piece in pieces:
            remaining_bytes -= len(piece)
            if remaining_bytes < 0:
                raise Refused("file_too_large", f"{name} is over {DOWNLOAD_BYTES_MAX:,} bytes")
            part.write(piece)
    return folder / name


def _create_folder(folder: Path, *, is_private: bool = True) -> None:
    try:
        if is_private:
            create_private_folder(folder)
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refused("unwritable", f"{folder} cannot be made: {error}") from error


@contextmanager
def _open_replacement(file: Path, *, is_private: bool = True) -> Iterator[BinaryIO]:
    """Write to a temporary file that replaces the target on success.

    Devices and pipes are written directly.
    """
    part = file.with_name(f".{file.name}.part")
    is_plain = file.is_file() or not file.exists()
    try:
        is_new = is_plain and is_private
        target = part if is_plain else file
        with open_private(target) if is_new else target.open("wb") as opened:
            yield opened
        if is_plain:
            part.replace(file)
    except OSError as error:
        raise Refused("unwritable", f"{file} cannot be written: {error}") from error
    finally:
        part.unlink(missing_ok=True)


def _read_bytes(file: Path, bytes_max: int) -> bytes:
    """Return a file's bytes, reading at most up to the limit."""
    try:
        with file.open("rb") as opened:
            data = opened.read(bytes_max + 1)
    except OSError as error:
        raise Refused("unreadable", f"{file} cannot be read: {error.strerror}") from error
    if len(data) > bytes_max:
        raise Refused("file_too_large", f"{file} is over {bytes_max:,} bytes")
    return data
