"""What the commands need of the world."""

import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from shared.errors import Failed
from warpboard.domain.answers import Answer, Progress
from warpboard.domain.demand import Demand
from warpboard.domain.demo import Solutions
from warpboard.domain.progress import News
from warpboard.domain.tables import Table


class Unavailable(Failed):
    """The platform does not answer; the same may be asked again."""


@dataclass(frozen=True)
class Wish:
    """A submission as a participant wants it; no GPU types means what the file or problem says."""

    name: str
    source: bytes
    problem: str
    mode: str
    gpus: tuple[str, ...] = ()


class Api(Protocol):
    """The platform's HTTP API, as one participant."""

    async def get(self, *path: str | int, **query: str | float) -> Answer:
        """What a read under /v1 answers. Errors: Refused; Unavailable; Failed."""
        ...

    async def act(self, method: str, *path: str | int, said: Mapping[str, object]) -> Answer:
        """What a request under /v1 with a JSON body answers. Errors: as get."""
        ...

    async def submit(self, wish: Wish, key: str) -> Answer:
        """The receipts of a submission; the same key never makes a second one. Errors: as get."""
        ...

    async def publish(self, slug: str, files: Mapping[str, bytes]) -> Answer:
        """The problem's newest version. Errors: as get."""
        ...

    def download(self, number: int, name: str) -> AsyncIterator[bytes]:
        """A file of a submission, piece by piece. Errors: as get."""
        ...


class Connect(Protocol):
    """Opens the API at a URL, as a participant; without a name, as the one who runs the command."""

    def __call__(
        self, url: str, participant: str | None = None
    ) -> AbstractAsyncContextManager[Api]:
        """The API for as long as the context lasts."""
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


class Row(Protocol):
    """One process of the platform on this machine."""

    @property
    def name(self) -> str:
        """Which service or server it is."""
        ...

    @property
    def state(self) -> str:
        """How it is."""
        ...

    @property
    def pid(self) -> int | None:
        """Its process, while it has one."""
        ...

    @property
    def restarts(self) -> int:
        """How often it was brought back."""
        ...

    @property
    def address(self) -> str:
        """Where it answers."""
        ...


class Platform(Protocol):
    """A platform that runs on this machine."""

    @property
    def url(self) -> str:
        """Where its API answers."""
        ...

    @property
    def rows(self) -> Sequence[Row]:
        """How each of its processes is."""
        ...


class Machine(Protocol):
    """This machine, on which platforms run, each in its folder."""

    async def supervise(
        self, folder: Path, demand: Demand, work: Callable[[Platform], Awaitable[None]]
    ) -> signal.Signals | None:
        """Run a platform for as long as the work takes; the signal that ended it, if one did.

        A demand that is not the operator's own gives way to what the environment says.
        Errors: Refused if the folder is in use; Failed; those of the work.
        """
        ...

    def describe(self, folder: Path) -> Sequence[Row]:
        """How the processes of a folder's platform are; empty if it never ran there."""
        ...

    def down(self, folder: Path) -> bool:
        """Stop a folder's platform; False if it was not up. Errors: Failed."""
        ...


@dataclass(frozen=True)
class Auditing:
    """What is audited: a leaderboard, at a moment or now; of a file, no server is needed."""

    problem: str
    gpu: str
    version: int | None = None
    as_of: str | None = None
    as_of_seq: int | None = None
    file: Path | None = None
    keys: tuple[str, ...] = ()
    seals: Path | None = None


@dataclass(frozen=True)
class Replaying:
    """Which projection is folded anew, from where, and whether readers are to see it."""

    projection: str = "ranker"
    source: str = "stream"
    file: Path | None = None
    is_switched: bool = False


class Books(Protocol):
    """The log of a folder's platform, and what is made of it: by the ranker's own commands."""

    async def replay(self, folder: Path, asked: Replaying) -> Answer:
        """How a projection folded anew compares with the live one. Errors: Refused; Failed."""
        ...

    async def audit(self, folder: Path, asked: Auditing) -> Answer:
        """The report on a leaderboard. Errors: Refused; Failed."""
        ...

    async def export(self, folder: Path, file: Path, *, with_blobs: bool) -> Answer:
        """What was written of the log, whether the platform runs or not. Errors: as audit."""
        ...

    async def import_(self, folder: Path, file: Path, actor: str) -> Answer:
        """What is now in the log, empty before, of a platform that is down. Errors: as audit."""
        ...

    async def collect(self, folder: Path, *, is_trial: bool) -> Answer:
        """Which blobs that no event names were, or would be, removed. Errors: as audit."""
        ...


class Disk(Protocol):
    """Files that a participant or an author names."""

    def source(self, file: Path) -> bytes:
        """A submission's source. Errors: Refused."""
        ...

    def problem(self, folder: Path, slug: str | None) -> ProblemFiles:
        """A problem directory, compiled; its slug is the folder's name if None. Errors: Refused."""
        ...

    def solutions(self, folder: Path) -> list[Solutions]:
        """The solutions of every problem directory in a folder. Errors: Refused."""
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
