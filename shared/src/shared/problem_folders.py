"""Read problems from disk to compile them: no link is followed and no file is executed."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from shared.errors import Refused
from shared.problems import flashinfer, flashinfer_schema
from shared.problems.competition import SUFFIXES, CompetitionProblem, read_competition
from shared.problems.contest_yml import NAME as CONTEST_NAME
from shared.problems.document import YAML_BYTES_MAX, bad_problem, read_document
from shared.problems.sources import paths_above
from shared.problems.task_yml import NAMES
from shared.problems.warpboard_yml import NAME as WARPBOARD
from shared.problems.warpboard_yml import yardstick_path

FILES_MAX = 256
FILES_BYTES_MAX = 16 * 1024 * 1024
COMPETITIONS_MAX = 200
LEVELS_MAX = 4
FILE_BYTES_MAX = 1_000_000
SOLUTIONS = "solutions"
# A problem is published without its solutions, except for its yardstick.
SKIPPED = (SOLUTIONS, "__pycache__")


def read_problem_files(folder: Path, root: Path | None = None) -> dict[str, bytes]:
    """Read a problem's files by relative path, including the files above its folder that it names.

    `folder` may also be a single-file problem, or a definition in a set of FlashInfer-Trace or
    SOL-ExecBench, which is read with its workloads. `root` is the folder that all files must be
    in; by default that of its competition file. Errors: Refused `bad_problem`.
    """
    if folder.is_file():
        return _read_single_file(folder)
    if not folder.is_dir():
        raise bad_problem(f"{folder} is neither a directory nor a file")
    definition = folder / flashinfer_schema.DEFINITION
    if definition.is_file() and not any((folder / name).is_file() for name in NAMES):
        return _read_definition_files(definition.resolve())
    return _read_directory(folder, root)


def _read_directory(folder: Path, root: Path | None) -> dict[str, bytes]:
    collector = _FileCollector(folder)
    for path in _iter_files(folder):
        collector.add(path.relative_to(folder).as_posix(), path)
    yardstick = yardstick_path(collector.files.get(WARPBOARD, b""))
    yardstick_file = _resolve_file(folder, yardstick)
    if yardstick_file is not None and yardstick_file.is_relative_to(folder.resolve() / SOLUTIONS):
        collector.add(yardstick, yardstick_file)
    allowed_root = (root or competition_root(folder)).resolve()
    for name in NAMES:
        if name not in collector.files:
            continue
        for source in paths_above(read_document(name, collector.files[name])):
            path_above = _resolve_file(folder, source)
            # The compiler reports files that are missing or outside the set.
            if path_above is not None and path_above.is_relative_to(allowed_root):
                collector.add(source, path_above)
    return collector.files


def _read_single_file(file: Path) -> dict[str, bytes]:
    if file.suffix == ".json":
        return _read_definition_files(file.resolve())
    return {file.name: _read_bytes(file, FILE_BYTES_MAX)}


def _read_definition_files(file: Path) -> dict[str, bytes]:
    """Read a definition, its workloads and the tensors that they name.

    In a set these are `definitions/TYPE/NAME.json`, `workloads/TYPE/NAME.jsonl` and paths below the
    set's root. Elsewhere the workloads are beside the definition: NAME.jsonl, `workloads.jsonl` or
    `workload.jsonl`.
    """
    files = {flashinfer_schema.DEFINITION: _read_bytes(file, FILE_BYTES_MAX)}
    definitions = next((parent for parent in file.parents if parent.name == "definitions"), None)
    root = definitions.parent if definitions else file.parent
    name = file.relative_to(definitions or root).with_suffix(".jsonl")
    paths = [root / "workloads" / name]
    if definitions is None:
        paths = [root / name, *(root / other for other in flashinfer_schema.WORKLOAD_FILES)]
    workloads = next((path for path in paths if path.is_file()), None)
    if workloads is None:
        raise bad_problem(f"there are no workloads of {file.name}: {paths[0]} is missing")
    files[flashinfer_schema.WORKLOADS] = data = _read_bytes(workloads, FILE_BYTES_MAX)
    bytes_left = FILES_BYTES_MAX
    for path in flashinfer_schema.tensor_paths(flashinfer_schema.read_workloads(data)):
        # The compiler reports files that are missing. A folder may have them as a zip does.
        if tensors := _resolve_file(root, path) or _resolve_file(root / flashinfer.TENSORS, path):
            files[f"{flashinfer.TENSORS}{path}"] = content = _read_bytes(tensors, bytes_left)
            bytes_left -= len(content)
            if bytes_left < 0:
                raise bad_problem(f"{file.name} has tensors of over {FILES_BYTES_MAX:,} bytes")
    return files


def competition_root(folder: Path) -> Path:
    """Return the folder of the competition file above a problem; else the problem's own."""
    problem_folder = folder.resolve()
    for candidate in (problem_folder, *problem_folder.parents)[: LEVELS_MAX + 1]:
        if competition_files(candidate):
            return candidate
    return problem_folder


def find_competition_problem(folder: Path) -> CompetitionProblem | None:
    """Return a problem's entry in the competition files around it, if any.

    Errors: Refused for an invalid competition file.
    """
    if folder.is_file():
        return None
    problem_folder, root = folder.resolve(), competition_root(folder)
    for file in competition_files(root):
        for problem in read_competition(file.name, _read_bytes(file)) or ():
            if (root / problem.directory).resolve() == problem_folder:
                return problem
    return None


def competition_files(folder: Path) -> list[Path]:
    """Return the competition files in a folder, recognised by their content."""
    paths = sorted(path for suffix in SUFFIXES for path in folder.glob(f"*{suffix}"))
    return [path for path in paths[:COMPETITIONS_MAX] if _is_competition_file(path)]


def find_task_folders(root: Path) -> list[Path]:
    """Return all folders under a root that contain a task file."""
    matching_folders = []
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if _is_problem_path(name))
        if any(name in names for name in NAMES):
            matching_folders.append(Path(folder))
    return matching_folders


class _FileCollector:
    """Collects a problem's files up to limits on their number and size."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._bytes_left = FILES_BYTES_MAX
        self.files: dict[str, bytes] = {}

    def add(self, name: str, path: Path) -> None:
        if len(self.files) == FILES_MAX:
            raise bad_problem(f"{self._folder} has over {FILES_MAX} files: remove some")
        data = _read_bytes(path, self._bytes_left)
        self._bytes_left -= len(data)
        if self._bytes_left < 0:
            raise bad_problem(f"{self._folder} has over {FILES_BYTES_MAX:,} bytes: remove files")
        self.files[name] = data


def _iter_files(folder: Path) -> Iterator[Path]:
    """Yield a problem's files in order, without links and special files."""
    for folder_path, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if _is_problem_path(name))
        paths = (Path(folder_path) / name for name in sorted(names) if _is_problem_path(name))
        yield from (path for path in paths if path.is_file() and not path.is_symlink())


def _is_problem_path(name: str) -> bool:
    return not name.startswith(".") and name not in SKIPPED


def _resolve_file(folder: Path, source: str) -> Path | None:
    """Return the file at a path, which may go up, unless there is a link on the way."""
    try:
        path = (folder.resolve() / source).resolve()
        path_without_links = Path(os.path.normpath(folder.resolve() / source))
        return path if path == path_without_links and path.is_file() else None
    except (OSError, ValueError):
        return None


def _read_bytes(path: Path, bytes_max: int = YAML_BYTES_MAX) -> bytes:
    """Read a file, up to one byte more than the limit."""
    try:
        with path.open("rb") as file:
            return file.read(bytes_max + 1)
    except OSError as error:
        raise Refused("unreadable", f"{path} cannot be read: {error.strerror}") from error


def _is_competition_file(path: Path) -> bool:
    if path.is_symlink() or not path.is_file() or path.name in (*NAMES, CONTEST_NAME):
        return False
    with suppress(Refused):
        head = _read_bytes(path)
        return head.startswith(b"problems:") or b"\nproblems:" in head
    return False
