"""Files named on the command line, and a run of them here by the agents' own harness."""

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
from typing import Any, BinaryIO, Protocol

from harness import entry
from harness.entry import InspectReport, InspectRequest, RunReport, RunRequest, Told
from shared.errors import Refused
from shared.folders import listed, problem_files
from shared.problems import compile_problem
from shared.problems.contest import SUFFIXES, Listed, contest, with_gpus
from shared.problems.languages import SUFFIXES as SUFFIXES_OF
from shared.problems.languages import suffix
from shared.problems.warpboard_yml import SOURCE_BYTES_MAX
from warpboard.domain.answers import Answer, Progress
from warpboard.domain.demo import Sample, Solutions
from warpboard.domain.names import SLUG_LENGTH_MAX, slug_of
from warpboard.service.ports import ProblemFiles, Terms, Wish

# What any file of a problem or a contest may have; a submission's limit is the platform's own.
FILE_BYTES_MAX = 16 * 1024 * 1024
DEVICE = "cpu"
DOWNLOAD_BYTES_MAX = 64 * 1024 * 1024
PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}\Z")


class LocalDisk:
    """Reads what a participant or an author names."""

    def source(self, file: Path) -> bytes:
        """A submission's source. Errors: Refused."""
        return _bytes(file, SOURCE_BYTES_MAX)

    def problem(self, folder: Path, slug: str | None, gpus: tuple[str, ...] = ()) -> ProblemFiles:
        """A problem without its solutions, compiled. Errors: Refused."""
        files, entry = problem_files(folder), listed(folder)
        files = with_gpus(files, gpus or (entry.gpus if entry else ()))
        name = slug or (entry.slug if entry else slug_of(_name(folder.resolve())))
        version = compile_problem(name, files)
        return ProblemFiles(
            slug=name,
            files=files,
            manifest=version.manifest,
            version_files=version.files,
            ranking_by=version.ranking_by,
            warnings=tuple(version.warnings),
        )

    def contest(self, file: Path) -> list[Listed]:
        """What a contest file lists, with whole paths; nothing of any other. Errors: Refused."""
        if file.suffix not in SUFFIXES or not file.is_file():
            return []
        entries = contest(file.name, _bytes(file, FILE_BYTES_MAX))
        if not entries:
            raise Refused("bad_problem", f"{file} lists no problems: write problems: [...]")
        return [one._replace(directory=str(file.parent / one.directory)) for one in entries]

    def level(self, folder: Path, level: int) -> list[Path]:
        """The files of a level of a KernelBench checkout. Errors: Refused."""
        found = [*folder.glob(f"level{level}/*.py"), *folder.glob(f"KernelBench/level{level}/*.py")]
        if not found:
            raise Refused("bad_problem", f"{folder} holds no level{level} of KernelBench")
        return sorted(found)

    def solutions(self, folder: Path) -> list[Solutions]:
        """The solutions of every problem directory in a folder. Errors: Refused."""
        problems = sorted(task.parent for task in folder.glob("*/task.yml"))
        if not problems:
            raise Refused("bad_problem", f"{folder} holds no problem directory")
        return [self.samples(problem, slug_of(problem.name)) for problem in problems]

    def samples(self, problem: Path, slug: str) -> Solutions:
        """The solutions of one problem, as far as some lie beside it. Errors: Refused."""
        folder = (problem.parent if problem.is_file() else problem) / "solutions"
        return Solutions(slug, _samples(folder / "correct"), _samples(folder / "wrong"))

    def exists(self, file: Path) -> bool:
        """Whether something is there."""
        return file.exists()

    def page(self, name: str) -> str:
        """A page that comes with the command line."""
        return (files("warpboard") / "templates" / name).read_text(encoding="utf-8")

    def write(self, file: Path, data: bytes) -> None:
        """Write a file whole, or not at all, where its folder is. Errors: Refused."""
        with _replacing(file) as part:
            part.write(data)

    def lay_out(self, folder: Path, files: Mapping[str, bytes]) -> None:
        """Write files into a folder, which is made if it is not there. Errors: Refused."""
        for name, data in files.items():
            _made((folder / name).parent)
            self.write(folder / name, data)

    async def save(self, folder: Path, name: str, pieces: AsyncIterator[bytes]) -> Path:
        """Keep a download whole, or not at all; where it lies. Errors: Refused; of the pieces."""
        left = DOWNLOAD_BYTES_MAX
        if not PLAIN_NAME.match(name):
            raise Refused("bad_file", f"{name!r} is no plain name: it is not saved")
        _made(folder)
        with _replacing(folder / name) as part:
            async for piece in pieces:
                left -= len(piece)
                if left < 0:
                    raise Refused("file_too_large", f"{name} is over {DOWNLOAD_BYTES_MAX:,} bytes")
                part.write(piece)
        return folder / name


def _name(path: Path) -> str:
    return path.stem[:SLUG_LENGTH_MAX] if path.is_file() else path.name


def _made(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refused("unwritable", f"{folder} cannot be made: {error}") from error


@contextmanager
def _replacing(file: Path) -> Iterator[BinaryIO]:
    """A file beside the one that it takes the place of once it is written without trouble.

    What is there and no plain file, such as a device or a pipe, is written into.
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
    return tuple(Sample(file.name, _bytes(file, FILE_BYTES_MAX)) for file in files)


def _bytes(file: Path, bytes_max: int) -> bytes:
    """A file's bytes, read only as far as the limit."""
    try:
        with file.open("rb") as opened:
            data = opened.read(bytes_max + 1)
    except OSError as error:
        raise Refused("unreadable", f"{file} cannot be read: {error.strerror}") from error
    if len(data) > bytes_max:
        raise Refused("file_too_large", f"{file} is over {bytes_max:,} bytes")
    return data


class Evaluator(Protocol):
    """What runs submissions, and looks at problems."""

    async def evaluate(self, request: RunRequest, told: Told) -> RunReport:
        """How one submission ends."""
        ...

    async def inspect(self, request: InspectRequest) -> InspectReport:
        """What is found in a problem's own code."""
        ...


class _Fresh:
    """A harness for each request."""

    async def evaluate(self, request: RunRequest, told: Told) -> RunReport:
        return await entry.evaluate(request, told)

    async def inspect(self, request: InspectRequest) -> InspectReport:
        async with entry.Harness() as harness:
            return await harness.inspect(request)


class LocalHarness:
    """Runs a submission in this machine's harness, with a folder that is gone afterwards."""

    def __init__(self, harness: Evaluator | None = None) -> None:
        """Without one every run has a harness of its own, which is gone afterwards."""
        self._harness = harness or _Fresh()

    @asynccontextmanager
    async def warm(self) -> AsyncIterator["LocalHarness"]:
        """The same, with a supervisor that stays for as long as the context lasts."""
        async with entry.Harness() as harness:
            yield LocalHarness(harness)

    def code(self) -> Answer:
        """Which harness that is: its version, its folder, its code's digest as agents tell it."""
        return {
            "version": entry.VERSION,
            "folder": str(Path(entry.__file__).parent),
            "digest": hashlib.sha256(entry.code()).hexdigest(),
        }

    def offer(self) -> Answer:
        """What this machine can give, in the keys of an Offer."""
        found = entry.isolation()
        second = ["bubblewrap"] if found.has_bubblewrap else []
        return {
            "level": found.level,
            "tier": entry.look("cpu", found.walls).tier,
            "device": DEVICE,
            "kernel": found.kernel,
            "walls": list(found.walls),
            "missing": [asdict(one) for one in found.missing],
            "launchers": ["zygote", *second],
            "launchers_missing": [asdict(one) for one in found.launchers],
            "toolchains": entry.toolchains(),
        }

    async def inspect(self, problem: ProblemFiles) -> Answer:
        """What is found in a problem's own code."""
        with tempfile.TemporaryDirectory(prefix="warpboard-run-") as home:
            folder = Path(home) / "problem"
            await asyncio.to_thread(_lay_out_problem, folder, problem)
            return asdict(await self._harness.inspect(InspectRequest(str(folder))))

    async def run(
        self,
        problem: ProblemFiles,
        wish: Wish,
        told: Callable[[Progress], Awaitable[None]],
        terms: Terms,
    ) -> Answer:
        """How one submission ends, in the keys of a submission's run."""
        said: dict[str, Any] = {}
        with tempfile.TemporaryDirectory(prefix="warpboard-run-") as home:
            request = await asyncio.to_thread(_lay_out, Path(home), problem, wish)
            request = replace(request, level_min=terms.level_min)
            report = await self._harness.evaluate(request, _hearing(said, told))
            said["files"] = await asyncio.to_thread(_kept, Path(request.out), terms.save)
        return _answer(report, said)

    async def duel(
        self,
        problem: ProblemFiles,
        wishes: tuple[Wish, Wish],
        told: Callable[[Progress], Awaitable[None]],
        terms: Terms,
    ) -> Answer:
        """How a duel of two submissions ends, in the keys of a submission's run and `duel`."""
        said: dict[str, Any] = {}
        with tempfile.TemporaryDirectory(prefix="warpboard-run-") as home:
            first, second = wishes
            rival = Path(home) / f"rival{suffix(second.name)}"
            request = await asyncio.to_thread(_lay_out, Path(home), problem, first)
            await asyncio.to_thread(rival.write_bytes, second.source)
            request = replace(request, level_min=terms.level_min, rival=str(rival))
            report = await self._harness.evaluate(request, _hearing(said, told))
            said["files"] = await asyncio.to_thread(_kept, Path(request.out), terms.save)
        return _answer(report, said)


def _hearing(said: dict[str, Any], told: Callable[[Progress], Awaitable[None]]) -> Told:
    """Keep what is said of the machine in `said`, and tell the progress."""

    async def hear(message: entry.Started | entry.Progress | entry.StageFinished) -> None:
        if isinstance(message, entry.Started):
            said.update(level=message.level, tier=message.tier, missing=message.missing)
        if isinstance(message, entry.Progress):
            await told(Progress(**asdict(message)))

    return hear


def _lay_out(home: Path, problem: ProblemFiles, wish: Wish) -> RunRequest:
    folder, out = home / "problem", home / "out"
    source = home / f"submission{suffix(wish.name)}"
    out.mkdir()
    _lay_out_problem(folder, problem)
    source.write_bytes(wish.source)
    return RunRequest(str(folder), str(source), wish.mode, str(out))


def _lay_out_problem(folder: Path, problem: ProblemFiles) -> None:
    _write(folder, {**problem.version_files, "manifest.json": problem.manifest})


def _kept(out: Path, folder: Path | None) -> list[Answer]:
    """What a run left, by name; copied into the folder if there is one."""
    found = sorted(path for path in out.iterdir() if path.is_file() and not path.is_symlink())
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        for path in found:
            shutil.copyfile(path, folder / path.name)
    return [{"name": path.name, "bytes": path.stat().st_size} for path in found]


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)


def _answer(report: RunReport, said: Mapping[str, Any]) -> Answer:
    answer = asdict(report) | dict(said)
    return answer | {"verdict": report.verdict or None}
