"""Prepares the folder of each run, and the cache of builds that runs share."""

import importlib
import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

from harness.build.command import DRIVER, HEADER, LANGUAGES
from harness.build.plan import BuildCache
from harness.check import processor, reference_submission
from harness.check.author import mentions_cuda
from harness.messages import Request, RunRequest
from harness.problem import AuthorActivity, Problem, RunDirectory, load_problem
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

_CACHE = "compiled"


def prepare_run_directory(request: Request, parent: Path) -> RunDirectory:
    """Copy problem and submission into a new folder in `parent` that run and worker can read.

    An inspection has no submission and leaves no records.

    Raises ProblemFault; OSError if the submission cannot be read or the disk is full.
    """
    problem = load_problem(Path(request.problem))
    folder = Path(tempfile.mkdtemp(dir=parent))
    folder.chmod(0o711)
    try:
        directory = _fill(folder, problem, request)
        # The folder belongs to the account of the run; the worker's folders are readable for all.
        if os.getuid() == 0:
            os.fchown(directory.out, RUN_UID, RUN_UID)
            for path in (folder, *folder.rglob("*")):
                os.chown(path, RUN_UID, RUN_UID)
        return directory
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def add_submission(directory: RunDirectory, source: str) -> RunDirectory:
    """Return the directory of the next submission to the same problem, within that of the first.

    Raises OSError if the submission cannot be read or the disk is full.
    """
    folder = Path(tempfile.mkdtemp(dir=directory.folder))
    folder.chmod(0o711)
    submission, scratch = folder / "submission", folder / "scratch"
    for path in (submission, scratch):
        path.mkdir()
    main = _copy_submission_files(directory.problem.folder, submission, directory.problem, source)
    if os.getuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, RUN_UID, RUN_UID)
    problem = replace(directory.problem, submission=main)
    out = os.dup(directory.out)
    return replace(
        directory, folder=folder, problem=problem, submission=submission, scratch=scratch, out=out
    )


def _fill(folder: Path, problem: Problem, request: Request) -> RunDirectory:
    names = ("problem", "submission", "scratch", "records")
    problem_folder, submission, scratch, records = (folder / name for name in names)
    for path in (problem_folder, submission, scratch, records):
        path.mkdir()
    source_path, records_path = _find_paths(request)
    problem_folder.chmod(0o700)
    for name in problem.files:
        shutil.copyfile(problem.folder / name, problem_folder / name)
    if request.device == "cpu" and problem.form == "kernelbench" and _MODEL_CPU in problem.files:
        shutil.copyfile(problem.folder / _MODEL_CPU, problem_folder / _MODEL)
    main = _copy_submission_files(problem_folder, submission, problem, source_path)
    out = os.open(records_path or records, os.O_RDONLY | os.O_DIRECTORY)
    local_problem = replace(problem, folder=problem_folder, submission=main)
    directory = RunDirectory(folder, local_problem, submission, scratch, out, AuthorActivity())
    if not isinstance(request, RunRequest):
        return directory
    if not request.source:
        directory = _add_reference(directory, "reference", request.device)
    if request.rival:
        return replace(directory, rival=_add_second(directory, "rival", request.rival))
    if "time" in MODES[request.mode].stages and not problem.main:
        return replace(directory, yardstick=_add_yardstick(directory, request.device))
    return directory


def _find_paths(request: Request) -> tuple[str, str]:
    """Return the paths of a request's source and of the folder for its records; "" if none."""
    if not isinstance(request, RunRequest):
        return "", ""
    # The folder for the records of the first run may be gone when the next one ends.
    return request.source, "" if request.is_shared else request.out


def _add_second(directory: RunDirectory, name: str, source: str) -> RunDirectory:
    """Return the directory of a second submission, in folders that no worker of the first sees."""
    problem, submission = directory.problem, directory.folder / name
    scratch = directory.folder / f"{name}_scratch"
    submission.mkdir()
    scratch.mkdir()
    main = _copy_submission_files(problem.folder, submission, problem, source)
    second = replace(problem, submission=main)
    return replace(directory, problem=second, submission=submission, scratch=scratch)


def _add_yardstick(directory: RunDirectory, device: str) -> RunDirectory:
    """Return the directory of the yardstick: the solution that the problem names, or its reference.

    The yardstick's workers see nothing else.
    """
    problem = directory.problem
    if problem.yardstick:
        return _add_second(directory, _YARDSTICK, str(problem.folder / problem.yardstick))
    return _add_reference(directory, _YARDSTICK, device)


def _add_reference(directory: RunDirectory, name: str, device: str) -> RunDirectory:
    """Return the directory of the reference as a submission, which needs all the author's files."""
    problem = directory.problem
    problem = replace(problem, submission=_MAINS[problem.lang])
    second = _add_second(replace(directory, problem=problem), name, "")
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
    problem_folder: Path, submission_folder: Path, problem: Problem, source: str
) -> str:
    if problem.lang == "cu":
        main = problem.submission
        for path in _native_files(problem_folder, problem):
            shutil.copyfile(path, submission_folder / path.name)
        if _REFERENCE_CODE in problem.files:
            # Submissions in the older public form include it by this name.
            shutil.copyfile(problem_folder / _TASK, submission_folder / _REFERENCE)
    else:
        main = _copy_python_files(problem_folder, submission_folder, problem, Path(source))
    if source:
        shutil.copyfile(source, submission_folder / main)
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
