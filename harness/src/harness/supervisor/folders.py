"""Prepares the folder of each run, and the cache of builds that runs share."""

import contextlib
import errno
import importlib
import os
import shutil
import stat
import tempfile
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Self

from harness.build.command import DRIVER, HEADER, LANGUAGES
from harness.build.plan import BuildCache
from harness.check import processor, reference_submission
from harness.check.author import mentions_cuda
from harness.messages import Request, RunRequest, SubmittedFiles
from harness.problem import AuthorActivity, Problem, RunDirectory
from harness.vocabulary import MODES

# The account of a run where the supervisor is root; it owns nothing else here.
RUN_UID = 64000
_REFERENCE = "reference.cuh"
# A KernelBench model with the sizes for the cpu device, in the place of the model itself.
_MODEL, _MODEL_CPU = "reference.py", "reference_cpu.py"
# The author's file of a C++ problem in one file, whose task.h includes it.
_REFERENCE_CODE, _TASK = "reference_code.cuh", "task.h"
_YARDSTICK = "yardstick"
# The main file of a yardstick that is the reference, and what it imports.
_MAINS = {"py": "warpboard_yardstick.py", "cu": "warpboard_yardstick.cu"}
_MODULES = {"warpboard_reference.py": reference_submission, "warpboard_processor.py": processor}
_PYTHON = """\
import warpboard_processor
import warpboard_reference

{entry} = warpboard_reference.{load}({context})
"""
_MOVED = "warpboard_processor.map_cuda_to_cpu()"
_NATIVE = '#include "task.h"\n#include "utils.h"\n\n#include "reference.cuh"\n'
_HEADERS = (".h", ".hh", ".hpp", ".cuh", ".inl")

NO_FILES = SubmittedFiles("")

_CACHE = "compiled"
# What is in the folder of a run; only the run itself reads the first one.
_PROBLEM = "problem"
_CONTENT = (_PROBLEM, "submission", "scratch")
_RECORDS = "records"
_RECORDS_MAX = 1000
_RECORD_BYTES_MAX = 1024**3
_CHUNK_BYTES = 1024**2


@dataclass(frozen=True)
class RunFolder:
    """The folder of a run's process, made before its first request is known.

    `out` is a descriptor of the folder for records within, and `mark` the page on which the process
    shows which part of the author's code is running.
    """

    path: Path
    out: int
    mark: AuthorActivity = field(default_factory=AuthorActivity)

    @classmethod
    def make(cls, parent: Path) -> Self:
        """Make a folder in `parent`. Raises OSError."""
        path = Path(tempfile.mkdtemp(dir=parent))
        folders = [path / name for name in (*_CONTENT, _RECORDS)]
        for folder in folders:
            folder.mkdir()
        (path / _PROBLEM).chmod(0o700)
        path.chmod(0o711)
        _give_to_run(path, *folders)
        return cls(path, os.open(path / _RECORDS, os.O_RDONLY | os.O_DIRECTORY))

    def move_records(self, out: Path) -> None:
        """Move the records to the folder that a request names. Raises OSError.

        The process may have been taken over: only plain files count, and only so many.
        """
        target = os.open(out, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with os.scandir(self.out) as entries:
                names = [entry.name for entry in islice(entries, _RECORDS_MAX)]
            for name in names:
                _move_file(name, self.out, target)
        finally:
            os.close(target)

    def leave(self) -> None:
        """Remove the folder."""
        os.close(self.out)
        shutil.rmtree(self.path, ignore_errors=True)


def _move_file(name: str, source: int, target: int) -> None:
    if not stat.S_ISREG(os.stat(name, dir_fd=source, follow_symlinks=False).st_mode):
        return
    try:
        os.rename(name, name, src_dir_fd=source, dst_dir_fd=target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _copy_file(name, source, target)


def _copy_file(name: str, source: int, target: int) -> None:
    """Copy a record to another file system."""
    read = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=source)
    with os.fdopen(read, "rb") as original:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with os.fdopen(os.open(name, flags, 0o644, dir_fd=target), "wb") as copy:
            while copy.tell() < _RECORD_BYTES_MAX and (chunk := original.read(_CHUNK_BYTES)):
                copy.write(chunk)
    with contextlib.suppress(OSError):
        os.unlink(name, dir_fd=source)


def _give_to_run(*paths: Path) -> None:
    """Give paths to the account of runs; the worker's folders are readable for all."""
    if os.getuid() == 0:
        for path in paths:
            os.chown(path, RUN_UID, RUN_UID)


def prepare_run_directory(request: Request, problem: Problem, folder: RunFolder) -> RunDirectory:
    """Copy problem and submission into a folder that run and worker can read.

    An inspection has no submission and leaves no records. Raises OSError if the submission cannot
    be read or the disk is full.
    """
    directory = _fill(folder, problem, request)
    _give_to_run(*folder.path.rglob("*"))
    return directory


def add_submission(directory: RunDirectory, files: SubmittedFiles) -> RunDirectory:
    """Return the directory of the next submission to the same problem, within that of the first.

    Raises OSError if the submission cannot be read or the disk is full.
    """
    folder = Path(tempfile.mkdtemp(dir=directory.folder))
    folder.chmod(0o711)
    submission, scratch = folder / "submission", folder / "scratch"
    for path in (submission, scratch):
        path.mkdir()
    main = _copy_submission_files(directory.problem.folder, submission, directory.problem, files)
    _give_to_run(folder, *folder.rglob("*"))
    problem = replace(directory.problem, submission=main)
    return replace(
        directory,
        folder=folder,
        problem=problem,
        submission=submission,
        scratch=scratch,
        others=files.others,
    )


def _fill(run_folder: RunFolder, problem: Problem, request: Request) -> RunDirectory:
    folder = run_folder.path
    problem_folder, submission, scratch = (folder / name for name in _CONTENT)
    files = request.files if isinstance(request, RunRequest) else NO_FILES
    for name in problem.files:
        shutil.copyfile(problem.folder / name, problem_folder / name)
    if request.device == "cpu" and problem.form == "kernelbench" and _MODEL_CPU in problem.files:
        shutil.copyfile(problem.folder / _MODEL_CPU, problem_folder / _MODEL)
    main = _copy_submission_files(problem_folder, submission, problem, files)
    local_problem = replace(problem, folder=problem_folder, submission=main)
    own = run_folder.out, run_folder.mark
    directory = RunDirectory(folder, local_problem, submission, scratch, *own, others=files.others)
    if not isinstance(request, RunRequest):
        return directory
    if not request.source:
        directory = _add_reference(directory, "reference", request.device)
    if request.rival:
        return replace(directory, rival=_add_second(directory, "rival", request.rival_files))
    if "time" in MODES[request.mode].stages and not problem.main:
        return replace(directory, yardstick=_add_yardstick(directory, request.device))
    return directory


def _add_second(directory: RunDirectory, name: str, files: SubmittedFiles) -> RunDirectory:
    """Return the directory of a second submission, in folders that no worker of the first sees."""
    problem, submission = directory.problem, directory.folder / name
    scratch = directory.folder / f"{name}_scratch"
    submission.mkdir()
    scratch.mkdir()
    main = _copy_submission_files(problem.folder, submission, problem, files)
    second = replace(problem, submission=main)
    return replace(
        directory, problem=second, submission=submission, scratch=scratch, others=files.others
    )


def _add_yardstick(directory: RunDirectory, device: str) -> RunDirectory:
    """Return the directory of the yardstick: the solution that the problem names, or its reference.

    The yardstick's workers see nothing else.
    """
    problem = directory.problem
    if problem.yardstick:
        files = SubmittedFiles(str(problem.folder / problem.yardstick))
        return _add_second(directory, _YARDSTICK, files)
    return _add_reference(directory, _YARDSTICK, device)


def _add_reference(directory: RunDirectory, name: str, device: str) -> RunDirectory:
    """Return the directory of the reference as a submission, which needs all the author's files."""
    problem = directory.problem
    problem = replace(problem, submission=_MAINS[problem.lang])
    second = _add_second(replace(directory, problem=problem), name, NO_FILES)
    for file in problem.files:
        shutil.copyfile(problem.folder / file, second.submission / file)
    if problem.lang == "cu":
        return _complete_native(second)
    is_moved = device == "cpu" and mentions_cuda(problem)
    for file, module in _MODULES.items():
        shutil.copyfile(str(module.__file__), second.submission / file)
    load = "load_model" if problem.form == "kernelbench" else "load_kernel"
    main = _PYTHON.format(entry=problem.entry, load=load, context=_MOVED if is_moved else "")
    (second.submission / problem.submission).write_text(main)
    return second


def _complete_native(yardstick: RunDirectory) -> RunDirectory:
    """Add what the reference of a C++ problem is compiled with; its arrays are on the host."""
    problem, folder = yardstick.problem, yardstick.submission
    # Our files last: they replace files of the same name from the problem.
    for path in (HEADER, *DRIVER.parent.iterdir()):
        shutil.copyfile(path, folder / path.name)
    (folder / problem.submission).write_text(_NATIVE)
    defines = {**problem.native.defines, "WB_KERNEL": "ref_kernel"}
    native = replace(problem.native, defines=defines, arrays="host")
    return replace(yardstick, problem=replace(problem, native=native))


def _copy_submission_files(
    problem_folder: Path, submission_folder: Path, problem: Problem, files: SubmittedFiles
) -> str:
    """Copy what a submission's workers see, and the submission; return the entry's name there.

    Raises OSError for a file beside the entry that exists already: nothing of ours is replaced.
    """
    if problem.lang == "cu":
        main = problem.submission
        for path in _native_files(problem_folder, problem):
            shutil.copyfile(path, submission_folder / path.name)
        if _REFERENCE_CODE in problem.files:
            # Submissions in the older public form include it by this name.
            shutil.copyfile(problem_folder / _TASK, submission_folder / _REFERENCE)
    else:
        main = _copy_python_files(problem_folder, submission_folder, problem, Path(files.entry))
    if files.entry:
        shutil.copyfile(files.entry, submission_folder / main)
    for name, other in zip(files.others, files.paths[1:], strict=True):
        target = submission_folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with Path(other).open("rb") as source, target.open("xb") as copy:
            shutil.copyfileobj(source, copy)
    return main


def _native_files(problem_folder: Path, problem: Problem) -> list[Path]:
    """Return what a C++ submission is built with: a program's files, or all but the reference."""
    if problem.main:
        return [problem_folder / name for name in problem.files]
    headers = [name for name in problem.files if name.endswith(_HEADERS) and name != _REFERENCE]
    problem_files = [problem_folder / name for name in (*headers, *problem.native.sources)]
    # Our files last: they replace files of the same name from the problem.
    return [*problem_files, HEADER, *DRIVER.parent.iterdir()]


def _copy_python_files(
    problem_folder: Path, submission_folder: Path, problem: Problem, source: Path
) -> str:
    """Copy what Python submissions may import; return the submission's file name there."""
    utilities = importlib.import_module("harness.check.utilities").__file__
    shutil.copyfile(str(utilities), submission_folder / "utils.py")
    # A problem's own program runs beside the submission, with all files it needs.
    for name in problem.files if problem.main else ("task.py", "utils.py"):
        if name in problem.files:
            shutil.copyfile(problem_folder / name, submission_folder / name)
    if source.suffix not in LANGUAGES:
        return problem.submission
    shutil.copyfile(HEADER, submission_folder / HEADER.name)
    return Path(problem.submission).with_suffix(source.suffix).name


def open_build_cache(folder: Path) -> BuildCache:
    """Open the machine's cache of builds in a folder that the next supervisor can use again."""
    # The cache belongs to the runs' account, which cannot reach its path.
    path = folder / _CACHE
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o700)
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    if os.getuid() == 0:
        os.fchown(descriptor, RUN_UID, RUN_UID)
    cache = BuildCache(descriptor)
    cache.sweep()
    return cache
