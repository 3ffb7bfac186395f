"""What the commands need of the world."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from shared.errors import Failed
from shared.problems.contest import Listed
from warpboard.domain import charts
from warpboard.domain.answers import Answer, Progress
from warpboard.domain.demo import Solutions
from warpboard.domain.problems import NO_FIELDS, Fields
from warpboard.domain.progress import News
from warpboard.domain.tables import Table


class Unavailable(Failed):
    """The platform does not answer; the same may be asked again, after `wait_s` if it said so."""

    def __init__(self, reason: str, wait_s: float | None = None) -> None:
        super().__init__(reason)
        self.wait_s = wait_s


class Told(NamedTuple):
    """Something of a submission's stream; a passing notice has no place in its history."""

    place: int | None
    kind: str
    data: Answer


@dataclass(frozen=True)
class Wish:
    """A submission as a participant wants it; no GPU types means what the file or problem says."""

    name: str
    source: bytes
    problem: str
    mode: str
    gpus: tuple[str, ...] = ()
    note: str = ""
    tag: str = ""
    case: int = 0


@dataclass(frozen=True)
class Voucher:
    """Why a problem may be published: what its check found, or an operator's reason for none."""

    report: str = ""
    unchecked: str = ""


class Reads(Protocol):
    """What can be asked."""

    async def get(self, *path: str | int, **query: str | float) -> Answer:
        """What a read under /v1 answers. Errors: Refused; Unavailable; Failed."""
        ...


class Api(Reads, Protocol):
    """The platform's HTTP API, as one participant."""

    async def act(self, method: str, *path: str | int, said: Mapping[str, object]) -> Answer:
        """What a request under /v1 with a JSON body answers. Errors: as get."""
        ...

    async def join(self, code: str) -> Answer:
        """The leaderboards that an invite opens. Errors: as get."""
        ...

    async def history(self, number: int) -> list[Answer]:
        """What happened to a submission so far, in order. Errors: as get."""
        ...

    def events(self, number: int, after: int) -> AsyncIterator[Told]:
        """What happens to a submission, from after a place in its history; 0 is its beginning.

        Errors: as get; Unavailable too when the connection is cut.
        """
        ...

    async def file(self, *path: str | int, **query: Sequence[str]) -> bytes:
        """A small file under /v1, whole. Errors: as get."""
        ...

    async def submit(self, wish: Wish, key: str) -> Answer:
        """The receipts of a submission; the same key never makes a second one. Errors: as get."""
        ...

    async def publish(
        self, slug: str, files: Mapping[str, bytes], voucher: Voucher, said: Fields = NO_FIELDS
    ) -> Answer:
        """The problem's newest version; `said` are further fields of the form. Errors: as get."""
        ...

    def download(self, number: int, name: str) -> AsyncIterator[bytes]:
        """A file of a submission, piece by piece. Errors: as get."""
        ...


class Connect(Protocol):
    """Opens the API at a URL: by a token, or as a participant; else as who runs the command."""

    def __call__(
        self, url: str, participant: str | None = None, token: str | None = None
    ) -> AbstractAsyncContextManager[Api]:
        """The API for as long as the context lasts."""
        ...


class Plots(Protocol):
    """Draws charts into files."""

    def png(self, chart: charts.Progress | charts.Spread) -> bytes:
        """A chart as a PNG file. Errors: Refused where that cannot be done."""
        ...


class Keys(Protocol):
    """Where a person's tokens are kept, one for each platform."""

    @property
    def place(self) -> str:
        """Where that is."""
        ...

    def token(self, url: str) -> str | None:
        """The token of a platform. Errors: Refused."""
        ...

    def keep(self, url: str, token: str) -> None:
        """Keep a platform's token instead of the one before. Errors: Refused."""
        ...

    def forget(self, url: str) -> bool:
        """Keep no token of a platform any more; False if there was none. Errors: Refused."""
        ...


class Reports(Protocol):
    """Where reports of checks are kept."""

    def found(self, key: str) -> str | None:
        """A report that was kept under a key."""
        ...

    def keep(self, key: str, text: str) -> None:
        """Keep a report under a key, if that can be done."""
        ...


class Live(Protocol):
    """Progress that is replaced by newer progress."""

    def show(self, key: str, news: News) -> None:
        """The newest word on one of the things that are under way."""
        ...


class Screen(Protocol):
    """What people and programs read."""

    def say(self, line: str) -> None:
        """A line of the answer."""
        ...

    def note(self, line: str) -> None:
        """A line beside the answer."""
        ...

    def table(self, table: Table) -> None:
        """A table of the answer."""
        ...

    def json(self, value: object) -> None:
        """The whole answer for a program."""
        ...

    def json_line(self, value: object) -> None:
        """One of several documents for a program, on a line of its own, at once."""
        ...

    def text(self, text: str) -> None:
        """The answer as it is, such as a file's content."""
        ...

    def marked(self, lines: Iterable[tuple[str, str]]) -> None:
        """Lines of the answer, each with what it is: coloured by that on a terminal."""
        ...

    def live(self, keys: Sequence[str]) -> AbstractContextManager[Live]:
        """Progress of the things with these keys, for as long as the context lasts."""
        ...


@dataclass(frozen=True)
class ProblemFiles:
    """A problem directory that compiles: its files as they are sent, and the compiled version."""

    slug: str
    files: Mapping[str, bytes]
    manifest: bytes
    version_files: Mapping[str, bytes]
    ranking_by: str
    warnings: tuple[str, ...] = ()


class Disk(Protocol):
    """Files that a participant or an author names."""

    def source(self, file: Path) -> bytes:
        """A submission's source. Errors: Refused."""
        ...

    def problem(self, folder: Path, slug: str | None, gpus: tuple[str, ...] = ()) -> ProblemFiles:
        """A problem, compiled: a directory, or a file that is one.

        Its slug is that of its contest, or its own name, if None. Errors: Refused.
        """
        ...

    def contest(self, file: Path) -> list[Listed]:
        """What a contest file lists, with whole paths; nothing of any other. Errors: Refused."""
        ...

    def level(self, folder: Path, level: int) -> list[Path]:
        """The files of a level of a KernelBench checkout. Errors: Refused."""
        ...

    def solutions(self, folder: Path) -> list[Solutions]:
        """The solutions of every problem directory in a folder. Errors: Refused."""
        ...

    def samples(self, problem: Path, slug: str) -> Solutions:
        """The solutions of one problem directory, as far as it has some. Errors: Refused."""
        ...

    def exists(self, file: Path) -> bool:
        """Whether something is there."""
        ...

    def page(self, name: str) -> str:
        """A page that comes with the command line, such as what `init` writes."""
        ...

    def write(self, file: Path, data: bytes) -> None:
        """Write a file whole, or not at all, where its folder is. Errors: Refused."""
        ...

    def lay_out(self, folder: Path, files: Mapping[str, bytes]) -> None:
        """Write files into a folder, which is made if it is not there. Errors: Refused."""
        ...

    async def save(self, folder: Path, name: str, pieces: AsyncIterator[bytes]) -> Path:
        """Keep a download whole, or not at all; where it lies. Errors: Refused; of the pieces."""
        ...


@dataclass(frozen=True)
class Terms:
    """How much a run here must be isolated, and where what it leaves is kept."""

    level_min: str = "none"
    save: Path | None = None


class Harness(Protocol):
    """The agents' own harness, on this machine."""

    def code(self) -> Answer:
        """Which harness that is: its version, its folder, and the digest of all its code."""
        ...

    def offer(self) -> Answer:
        """What this machine can give, in the keys of an Offer."""
        ...

    async def run(
        self,
        problem: ProblemFiles,
        wish: Wish,
        told: Callable[[Progress], Awaitable[None]],
        terms: Terms,
    ) -> Answer:
        """How one submission ends, in the keys of a submission's run; no verdict if we failed."""
        ...

    async def duel(
        self,
        problem: ProblemFiles,
        wishes: tuple[Wish, Wish],
        told: Callable[[Progress], Awaitable[None]],
        terms: Terms,
    ) -> Answer:
        """How a duel of two submissions ends, in the keys of a submission's run and `duel`."""
        ...

    async def inspect(self, problem: ProblemFiles) -> Answer:
        """What is found in a problem's own code: findings, or why there was no looking."""
        ...

    def warm(self) -> AbstractAsyncContextManager["Harness"]:
        """The same, with a start for all runs instead of one for each, while the context lasts."""
        ...
