"""The files of `warpboard evaluate`: sources come in and results go out, a line of JSON each."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from harness.evaluator import Source
from shared.api.evaluations import EvaluationItem
from shared.api.fields import explain_invalid
from shared.clock import new_id
from shared.errors import Refused
from shared.problems.submission_file import SUFFIXES
from shared.problems.warpboard_yml import SOURCE_BYTES_MAX
from shared.source_files import SOURCE_FILES_MAX, check_files
from warpboard.line_file import LineFile, bad_line

# A source as JSON takes up to six bytes per byte.
LINE_BYTES_MAX = 8 * SOURCE_BYTES_MAX


class CaseLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How one case ended."""

    name: str
    stage: str
    verdict: str
    message: str = ""
    time_us: float | None = None
    interval_us: tuple[float, float] | None = None


class CompositionLine(msgspec.Struct, frozen=True, kw_only=True):
    """What produced the answers."""

    shares: dict[str, float] = {}
    operators: list[str] = []


class ResultLine(msgspec.Struct, frozen=True, kw_only=True):
    """How a source ended; `reward` is what a trainer learns from, None without a time that counts.

    The times and the speed-up over the yardstick are missing unless the source was timed; `doubts`
    say why a moderator would review it. A platform's result has its evaluation and item.
    """

    id: str
    verdict: str
    reason: str
    mode: str
    reward: float | None
    stage: str = ""
    speedup: float | None = None
    interval: tuple[float, float] | None = None
    time_us: float | None = None
    time_interval_us: tuple[float, float] | None = None
    grade: str = ""
    doubts: list[str] = []
    composition: CompositionLine | None = None
    cases: list[CaseLine] = []
    device: str = ""
    level: str = ""
    tier: str = ""
    took_s: float = 0.0
    source_digest: str = ""
    problem_digest: str = ""
    harness_code: str = ""
    is_cached: bool = False
    evaluation: str = ""
    item: int | None = None


_sources = msgspec.json.Decoder(EvaluationItem)


class Run(msgspec.Struct, frozen=True):
    """A call, and those that go on with it; `known` sources had a result before it."""

    id: str
    known: int


_runs = msgspec.json.Decoder(Run)


class SourceFile:
    """The sources of a file. They are all checked first, and read again as they are needed."""

    def __init__(self, path: Path) -> None:
        """Check every line. Raises Refused with the line and the field."""
        self._path = path
        self.digests: dict[str, str] = {}
        for number, source in self._read():
            if source.id in self.digests:
                raise bad_line(path, number, "id", f"{source.id!r} is the id of an earlier line")
            self.digests[source.id] = as_source(source).digest
        if not self.digests:
            raise Refused("empty_file", f"{path} has no source: write one line of JSON for each")

    def __iter__(self) -> Iterator[EvaluationItem]:
        return (source for _, source in self._read())

    def _read(self) -> Iterator[tuple[int, EvaluationItem]]:
        """Yield each source with the number of its line. Raises Refused."""
        try:
            with self._path.open("rb") as file:
                for number, line in enumerate(_lines(file), 1):
                    if line.strip():
                        yield number, _parse_source(self._path, number, line)
        except OSError as error:
            reason = f"{self._path} cannot be read: {error.strerror}"
            raise Refused("unreadable", reason) from error


class ResultFile(LineFile[ResultLine]):
    """The file that results are appended to, with all of them by their ids."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, ResultLine)
        self.results: dict[str, ResultLine] = {}

    def keep(self, line: ResultLine, number: int, /) -> None:
        """Keep a result. Raises Refused if its source has one."""
        if number and line.id in self.results:
            reason = f"{line.id!r} has a result above: remove one of the lines"
            raise bad_line(self.path, number, "id", reason)
        self.results[line.id] = line

    def open_run(self) -> Run:
        """Return the run that a call left unfinished, or a new one. Raises Refused."""
        with suppress(OSError, msgspec.MsgspecError):
            run = _runs.decode(self._unfinished.read_bytes())
            if run.known <= len(self.results):
                return run
        run = Run(new_id(), len(self.results))
        try:
            self._unfinished.write_bytes(msgspec.json.encode(run))
        except OSError as error:
            reason = f"{self._unfinished} cannot be written: {error.strerror}"
            raise Refused("unwritable", reason) from error
        return run

    def finish_run(self) -> None:
        """Let the next call begin a run of its own."""
        self._unfinished.unlink(missing_ok=True)

    @property
    def _unfinished(self) -> Path:
        return self.path.with_name(f"{self.path.name}.unfinished")


def as_source(item: EvaluationItem) -> Source:
    """Return an item as a source of the evaluator."""
    return Source(item.source, item.name, item.others)


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield lines, of a line that is too long a part that is too long as well."""
    while line := file.readline(LINE_BYTES_MAX + 1):
        yield line


def _parse_source(path: Path, number: int, line: bytes) -> EvaluationItem:
    """Return the source in a line. Raises Refused."""
    if len(line) > LINE_BYTES_MAX:
        raise bad_line(path, number, "", f"the line is over {LINE_BYTES_MAX:,} bytes")
    try:
        source = _sources.decode(line)
    except msgspec.ValidationError as error:
        raise bad_line(path, number, *explain_invalid(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_line(path, number, "", f"this is no JSON: {error}") from error
    for field, problem in _find_problems(source):
        raise bad_line(path, number, field, problem)
    return source


def _find_problems(source: EvaluationItem) -> Iterator[tuple[str, str]]:
    """Yield each field that is wrong, and why."""
    if not source.source.strip():
        yield "source", "it is empty: give the whole file"
    if sum(len(file.data) for file in source.files) > SOURCE_BYTES_MAX:
        yield "source", f"it is over {SOURCE_BYTES_MAX:,} bytes, with the files beside it"
    try:
        check_files(source.name, source.files[1:], SOURCE_FILES_MAX, ())
    except Refused as refused:
        yield "others", refused.reason
    if not source.name.endswith(tuple(SUFFIXES.values())):
        yield "name", f"{source.name!r} has none of the suffixes {', '.join(SUFFIXES.values())}"
