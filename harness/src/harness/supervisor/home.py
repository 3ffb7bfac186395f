"""The folder of one run, laid out while the supervisor may still read everything."""

import importlib
import json
import os
import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from harness.messages import Request, RunRequest
from harness.problem import Problem, load
from harness.supervisor.mark import Mark
from harness.timing.history import History
from harness.toolchains.command import DRIVER, HEADER, LANGUAGES

# A run, and a worker, where the supervisor is root: accounts that own nothing else here.
RUN_UID = 64000
_HISTORY = "history.json"
_REFERENCE = "reference.cuh"
_HEADERS = (".h", ".hh", ".hpp", ".cuh", ".inl")
_HISTORY_BYTES_MAX = 1024 * 1024


@dataclass(frozen=True)
class Home:
    """What a run finds prepared: its folders, its problem, and a descriptor of its records' folder.

    `mark` says to the supervisor what of the author's code the run is in.
    `submission` is shown to the worker; `scratch` holds the workers' own folders where there is no
    mount namespace to give them one. Of a duel, `rival` is the same for the second submission.
    """

    folder: Path
    problem: Problem
    submission: Path
    scratch: Path
    out: int
    mark: Mark
    rival: "Home | None" = None

    def keep(self, name: str, data: bytes) -> None:
        """Writes one of the run's records, in a folder that its path may not reach any more."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with os.fdopen(os.open(name, flags, 0o644, dir_fd=self.out), "wb") as file:
            file.write(data)

    def history(self) -> History:
        """What this machine has shown so far. Errors: OSError, ValueError."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        with os.fdopen(os.open(self.folder / _HISTORY, flags)) as file:
            return History.from_json(json.loads(file.read(_HISTORY_BYTES_MAX)))

    def leave_history(self, history: History) -> None:
        """Leaves what it has shown by now, for the supervisor to keep."""
        (self.folder / _HISTORY).write_text(json.dumps(history.to_json()))

    def leave(self) -> None:
        """Removes the folder."""
        os.close(self.out)
        shutil.rmtree(self.folder, ignore_errors=True)


def prepare(request: Request, parent: Path, history: History) -> Home:
    """Copies the problem and the submission to where run and worker can read them, in `parent`.

    An inspection has no submission, and leaves no records.

    Errors: ProblemFault; OSError, if the submission cannot be read or the disk is full.
    """
    problem = load(Path(request.problem))
    folder = Path(tempfile.mkdtemp(dir=parent))
    folder.chmod(0o711)
    try:
        home = _furnish(folder, problem, request)
        home.leave_history(history)
        _give_away(home)
        return home
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _furnish(folder: Path, problem: Problem, request: Request) -> Home:
    names = ("problem", "submission", "scratch", "records")
    ours, shown, scratch, records = (folder / name for name in names)
    for one in (ours, shown, scratch, records):
        one.mkdir()
    source, place = (request.source, request.out) if isinstance(request, RunRequest) else ("", "")
    ours.chmod(0o700)
    for name in problem.files:
        shutil.copyfile(problem.folder / name, ours / name)
    main = _show(ours, shown, problem, source)
    out = os.open(place or records, os.O_RDONLY | os.O_DIRECTORY)
    ready = replace(problem, folder=ours, submission=main)
    home = Home(folder, ready, shown, scratch, out, Mark())
    if not isinstance(request, RunRequest) or not request.rival:
        return home
    return replace(home, rival=_furnish_rival(home, problem, request.rival))


def _furnish_rival(home: Home, problem: Problem, source: str) -> Home:
    """The same for the second submission, in folders that no worker of the first sees."""
    shown, scratch = home.folder / "rival", home.folder / "rival_scratch"
    shown.mkdir()
    scratch.mkdir()
    main = _show(home.problem.folder, shown, problem, source)
    ready = replace(home.problem, submission=main)
    return replace(home, problem=ready, submission=shown, scratch=scratch)


def _show(ours: Path, shown: Path, problem: Problem, source: str) -> str:
    """Lay out what a submission's workers see; the submission's own name there."""
    if problem.lang == "cu":
        main = problem.submission
        for path in _native(ours, problem):
            shutil.copyfile(path, shown / path.name)
    else:
        main = _python(ours, shown, problem, Path(source))
    if source:
        shutil.copyfile(source, shown / main)
    return main


def _native(ours: Path, problem: Problem) -> list[Path]:
    """What a submission in C++ is compiled with: a program's files, or ours and no reference."""
    if problem.main:
        return [ours / name for name in problem.files]
    headers = [one for one in problem.files if one.endswith(_HEADERS) and one != _REFERENCE]
    brought = [ours / one for one in (*headers, *problem.native.sources)]
    # Ours last, for they stand in for what the problem brings.
    return [*brought, HEADER, *DRIVER.parent.iterdir()]


def _python(ours: Path, shown: Path, problem: Problem, source: Path) -> str:
    """Shows what submissions to a problem in Python may import; the submission's own name there."""
    utilities = importlib.import_module("harness.supervisor.utilities").__file__
    shutil.copyfile(str(utilities), shown / "utils.py")
    # A program of the problem's own runs beside the submission, with all that it needs.
    for name in problem.files if problem.main else ("task.py", "utils.py"):
        if name in problem.files:
            shutil.copyfile(ours / name, shown / name)
    if source.suffix not in LANGUAGES:
        return problem.submission
    shutil.copyfile(HEADER, shown / HEADER.name)
    return Path(problem.submission).with_suffix(source.suffix).name


def _give_away(home: Home) -> None:
    """To the account that the run will be; the worker's folders stay readable for all."""
    if os.getuid() != 0:
        return
    os.fchown(home.out, RUN_UID, RUN_UID)
    for one in (home.folder, *home.folder.rglob("*")):
        os.chown(one, RUN_UID, RUN_UID)
