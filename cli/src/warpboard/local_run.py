"""Files named on the command line, and local runs in the agents' harness."""

import asyncio
import hashlib
import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, BinaryIO

from harness import entry
from harness.entry import InspectRequest, MessageHandler, RunRequest
from shared.api.submissions import Progress, SubmissionRequest
from shared.errors import Refused
from shared.presentation.responses import JsonObject
from shared.problem_folders import find_contest_problem, read_problem_files
from shared.problems.contest import SUFFIXES, ContestProblem, add_contest_gpus, read_contest
from shared.problems.submission_file import SUFFIXES as SUFFIXES_OF
from shared.problems.submission_file import suffix
from shared.problems.warpboard_yml import SOURCE_BYTES_MAX
from warpboard.domain.names import SLUG_LENGTH_MAX, slug_of
from warpboard.domain.solutions import Sample, Solutions
from warpboard.service.compilation import compile_files
from warpboard.service.ports import LocalRunTerms, ProblemFiles

# The limit of files of problems and contests; a submission's limit is the platform's own.
FILE_BYTES_MAX = 16 * 1024 * 1024
DEVICE = "cpu"
DOWNLOAD_BYTES_MAX = 64 * 1024 * 1024
PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}\Z")


class LocalDisk:
    """Reads and writes the files that a participant or an author names."""

    def source(self, file: Path) -> bytes:
        """Return a submission's source. Raises Refused."""
        return _read_bytes(file, SOURCE_BYTES_MAX)

    def problem(self, folder: Path, slug: str | None, gpus: tuple[str, ...] = ()) -> ProblemFiles:
        """Compile a problem without its solutions. Raises Refused."""
        files, entry = read_problem_files(folder), find_contest_problem(folder)
        files = add_contest_gpus(files, gpus or (entry.gpus if entry else ()))
        path = folder.resolve()
        own_name = path.stem[:SLUG_LENGTH_MAX] if path.is_file() else path.name
        name = slug or (entry.slug if entry else slug_of(own_name))
        return compile_files(name, files)

    def contest(self, file: Path) -> list[ContestProblem]:
        """Return the problems that a contest file lists, with full paths; empty for other files.
        Raises Refused.
        """
        if file.suffix not in SUFFIXES or not file.is_file():
            return []
        entries = read_contest(file.name, _read_bytes(file, FILE_BYTES_MAX))
        if not entries:
            raise Refused("bad_problem", f"{file} lists no problems: write problems: [...]")
        return [entry._replace(directory=str(file.parent / entry.directory)) for entry in entries]

    def level(self, folder: Path, level: int) -> list[Path]:
        """Return the files of a level of a KernelBench checkout. Raises Refused."""
        level_files = [
            *folder.glob(f"level{level}/*.py"),
            *folder.glob(f"KernelBench/level{level}/*.py"),
        ]
        if not level_files:
            raise Refused("bad_problem", f"{folder} holds no level{level} of KernelBench")
        return sorted(level_files)

    def solutions(self, folder: Path) -> list[Solutions]:
        """Return the solutions of every problem directory in a folder. Raises Refused."""
        problems = sorted(task.parent for task in folder.glob("*/task.yml"))
        if not problems:
            raise Refused("bad_problem", f"{folder} holds no problem directory")
        return [self.samples(problem, slug_of(problem.name)) for problem in problems]

    def samples(self, problem: Path, slug: str) -> Solutions:
        """Return the solutions of one problem, as far as there are any. Raises Refused."""
        folder = (problem.parent if problem.is_file() else problem) / "solutions"
        return Solutions(slug, _samples(folder / "correct"), _samples(folder / "wrong"))

    def exists(self, file: Path) -> bool:
        """Return whether a file or folder exists."""
        return file.exists()

    def page(self, name: str) -> str:
        """Return a template that comes with the command line."""
        return (files("warpboard") / "templates" / name).read_text(encoding="utf-8")

    def write(self, file: Path, data: bytes) -> None:
        """Write a file completely or not at all. Raises Refused."""
        with _open_replacement(file) as part:
            part.write(data)

    def lay_out(self, folder: Path, files: Mapping[str, bytes]) -> None:
        """Write files into a folder, which is created if necessary. Raises Refused."""
        for name, data in files.items():
            _create_folder((folder / name).parent)
            self.write(folder / name, data)

    async def save(self, folder: Path, name: str, pieces: AsyncIterator[bytes]) -> Path:
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


def _create_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refused("unwritable", f"{folder} cannot be made: {error}") from error


@contextmanager
def _open_replacement(file: Path) -> Iterator[BinaryIO]:
    """Write to a temporary file that replaces the target on success.

    Devices and pipes are written directly.
    """
    part = file.with_name(f".{file.name}.part")
    is_plain = file.is_file() or not file.exists()
    try:
        with (part if is_plain else file).open("wb") as opened:
            yield opened
        if is_plain:
            part.replace(file)
    except OSError as error:
        raise Refused("unwritable", f"{file} cannot be written: {error}") from error
    finally:
        part.unlink(missing_ok=True)


def _samples(folder: Path) -> tuple[Sample, ...]:
    files = sorted(path for end in SUFFIXES_OF.values() for path in folder.glob(f"*{end}"))
    return tuple(Sample(file.name, _read_bytes(file, FILE_BYTES_MAX)) for file in files)


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


class LocalHarness:
    """Runs submissions in this machine's harness, in temporary folders."""

    def __init__(self, harness: entry.Harness | None = None) -> None:
        """Without a harness every run gets one of its own."""
        self._harness = harness

    @asynccontextmanager
    async def warm(self) -> AsyncIterator["LocalHarness"]:
        """Return the same with a supervisor that stays for as long as the context lasts."""
        async with entry.Harness() as harness:
            yield LocalHarness(harness)

    def code(self) -> JsonObject:
        """Return the harness's version, folder and code digest."""
        return {
            "version": entry.VERSION,
            "folder": str(Path(entry.__file__).parent),
            "digest": hashlib.sha256(entry.code()).hexdigest(),
        }

    def offer(self) -> JsonObject:
        """Return what this machine offers, in the keys of an Offer."""
        isolation = entry.isolation()
        other_launchers = ["bubblewrap"] if isolation.has_bubblewrap else []
        missing, launchers_missing = (
            [{"wall": wall.wall, "reason": wall.reason, "fix": wall.mend} for wall in walls]
            for walls in (isolation.missing, isolation.launchers)
        )
        return {
            "level": isolation.level,
            "tier": entry.probe_device("cpu", isolation.walls).tier,
            "device": DEVICE,
            "kernel": isolation.kernel,
            "walls": list(isolation.walls),
            "missing": missing,
            "launchers": ["zygote", *other_launchers],
            "launchers_missing": launchers_missing,
            "toolchains": entry.toolchains(),
        }

    async def inspect(self, problem: ProblemFiles) -> JsonObject:
        """Inspect a problem's own code."""
        with tempfile.TemporaryDirectory(prefix="warpboard-run-") as home:
            folder = Path(home) / "problem"
            await asyncio.to_thread(_lay_out_problem, folder, problem)
            request = InspectRequest(str(folder))
            if self._harness is not None:
                return asdict(await self._harness.inspect(request))
            async with entry.Harness() as harness:
                return asdict(await harness.inspect(request))

    async def run(
        self,
        problem: ProblemFiles,
        submission: SubmissionRequest,
        report_progress: Callable[[Progress], Awaitable[None]],
        terms: LocalRunTerms,
        rival: SubmissionRequest | None = None,
    ) -> JsonObject:
        """Run one submission, or a duel with a rival; return its end in the keys of a run."""
        machine: dict[str, Any] = {}
        listen = _listen(machine, report_progress)
        with tempfile.TemporaryDirectory(prefix="warpboard-run-") as home:
            request = await asyncio.to_thread(_prepare_run, Path(home), problem, submission, rival)
            request = replace(request, level_min=terms.level_min)
            if self._harness is None:
                report = await entry.evaluate(request, listen)
            else:
                report = await self._harness.evaluate(request, listen)
            files = await asyncio.to_thread(_collect_files, Path(request.out), terms.save)
        answer = asdict(report) | machine
        return answer | {"files": files, "verdict": report.verdict or None}


def _listen(
    machine: dict[str, Any], report_progress: Callable[[Progress], Awaitable[None]]
) -> MessageHandler:
    """Return a listener that stores machine facts in `machine` and reports the progress."""

    async def handle_message(message: entry.Started | entry.Progress | entry.StageFinished) -> None:
        if isinstance(message, entry.Started):
            machine.update(level=message.level, tier=message.tier, missing=message.missing)
        if isinstance(message, entry.Progress):
            await report_progress(Progress(**asdict(message), stages=[]))

    return handle_message


def _prepare_run(
    home: Path,
    problem: ProblemFiles,
    submission: SubmissionRequest,
    rival: SubmissionRequest | None,
) -> RunRequest:
    folder, out = home / "problem", home / "out"
    source = home / f"submission{suffix(submission.name)}"
    out.mkdir()
    _lay_out_problem(folder, problem)
    source.write_bytes(submission.source)
    request = RunRequest(str(folder), str(source), submission.mode, str(out))
    if rival is None:
        return request
    rival_source = home / f"rival{suffix(rival.name)}"
    rival_source.write_bytes(rival.source)
    return replace(request, rival=str(rival_source))


def _lay_out_problem(folder: Path, problem: ProblemFiles) -> None:
    for name, data in {**problem.version_files, "manifest.json": problem.manifest}.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)


def _collect_files(out: Path, folder: Path | None) -> list[JsonObject]:
    """List the files of a run, and copy them into the folder if there is one."""
    paths = sorted(path for path in out.iterdir() if path.is_file() and not path.is_symlink())
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        for path in paths:
            shutil.copyfile(path, folder / path.name)
    return [
        {
            "name": path.name,
            "media": "",
            "bytes": path.stat().st_size,
            "digest": hashlib.sha256(path.read_bytes()).hexdigest(),
        }
        for path in paths
    ]
