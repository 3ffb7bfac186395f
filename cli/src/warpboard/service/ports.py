"""The ports of the commands."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from shared.api.leaderboards import LeaderboardMembership
from shared.api.problems import PublishedVersion
from shared.api.submissions import Progress, SubmissionReceipts
from shared.api.submissions import SubmissionRequest as SubmissionRequest  # noqa: PLC0414
from shared.errors import Failed
from shared.presentation.responses import JsonObject
from warpboard.domain.solutions import Solutions

if TYPE_CHECKING:  # It imports pydantic, which most commands do without.
    from shared.problems.contest import ContestProblem

# Settings of a problem that are sent beside its files, as form fields.
Fields = Mapping[str, str | Sequence[str]]
NO_FIELDS: Fields = MappingProxyType({})

T = TypeVar("T", bound=msgspec.Struct)
T_co = TypeVar("T_co", bound=msgspec.Struct, covariant=True)


@dataclass(frozen=True)
class Response(Generic[T_co]):
    """A response of the API: decoded, and its body as it came."""

    value: T_co
    body: bytes

    @property
    def document(self) -> Any:
        """The JSON document as it came, with fields that this version does not know."""
        return msgspec.json.decode(self.body)


class Unavailable(Failed):
    """The platform does not answer; the request may be repeated, after `wait_s` if given."""

    def __init__(self, reason: str, wait_s: float | None = None) -> None:
        super().__init__(reason)
        self.wait_s = wait_s


class StreamMessage(NamedTuple):
    """A message of a submission's stream; transient notices have no place in the history."""

    place: int | None
    kind: str
    data: JsonObject


@dataclass(frozen=True)
class PublishApproval:
    """Why a problem may be published: its check report, or an operator's reason for having none."""

    report: str = ""
    unchecked: str = ""


class Caller(NamedTuple):
    """Who sends requests: the owner of a token, or a participant whom a local platform believes.

    `operator` is recorded as the actor if the token is the platform's own.
    """

    participant: str | None = None
    token: str | None = None
    operator: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        """The headers that identify the caller."""
        headers = {
            "Authorization": f"Bearer {self.token}" if self.token else None,
            "Warpboard-Operator": self.operator,
            "Warpboard-Participant": None if self.token else self.participant,
        }
        return {name: value for name, value in headers.items() if value is not None}


class ReadApi(Protocol):
    """Reads from the API."""

    async def get(
        self, expected_type: type[T], /, *path: str | int, **query: str | float
    ) -> Response[T]:
        """Read a resource under /v1. Raises Refused, Unavailable and Failed."""
        ...


class Api(ReadApi, Protocol):
    """The platform's HTTP API, as one caller."""

    async def act(
        self, expected_type: type[T], method: str, *path: str | int, body: Mapping[str, object]
    ) -> Response[T]:
        """Send a request with a JSON body under /v1. Raises the same as get."""
        ...

    async def join(self, code: str) -> Response[LeaderboardMembership]:
        """Accept an invite and return its leaderboards. Raises the same as get."""
        ...

    async def history(self, number: int) -> list[JsonObject]:
        """Return the events of a submission so far, in order. Raises the same as get."""
        ...

    def events(self, number: int, after: int) -> AsyncIterator[StreamMessage]:
        """Yield the events of a submission as they happen, after a place in its history (0: all).

        Raises the same as get, and Unavailable when the connection is cut.
        """
        ...

    async def file(self, *path: str | int, **query: Sequence[str]) -> bytes:
        """Return a small file under /v1. Raises the same as get."""
        ...

    async def submit(self, request: SubmissionRequest, key: str) -> Response[SubmissionReceipts]:
        """Send a submission and return its receipts; a key never makes a second one. Raises the
        same as get.
        """
        ...

    async def publish(
        self,
        slug: str,
        files: Mapping[str, bytes],
        approval: PublishApproval,
        settings: Fields = NO_FIELDS,
    ) -> Response[PublishedVersion]:
        """Publish a problem; `settings` are further form fields. Raises the same as get."""
        ...

    def download(self, number: int, name: str) -> AsyncIterator[bytes]:
        """Yield a file of a submission in pieces. Raises the same as get."""
        ...


class Connect(Protocol):
    """Opens the API at a URL with a token, or as a participant, else as the current user."""

    def __call__(
        self, url: str, participant: str | None = None, token: str | None = None
    ) -> AbstractAsyncContextManager[Api]:
        """Open the API for as long as the context lasts."""
        ...


@dataclass(frozen=True)
class ProblemFiles:
    """A problem directory that compiles: the files to send, and the compiled version."""

    slug: str
    files: Mapping[str, bytes]
    manifest: bytes
    version_files: Mapping[str, bytes]
    ranking_by: str
    warnings: tuple[str, ...] = ()


class Disk(Protocol):
    """The files that a participant or an author names."""

    def source(self, file: Path) -> bytes:
        """Return a submission's source. Raises Refused."""
        ...

    def problem(self, folder: Path, slug: str | None, gpus: tuple[str, ...] = ()) -> ProblemFiles:
        """Compile a problem: a directory, or a file that is one.

        If `slug` is None, its slug is that of its contest, or its own name. Raises Refused.
        """
        ...

    def contest(self, file: Path) -> "list[ContestProblem]":
        """Return the problems that a contest file lists, with full paths; empty for other files."""
        ...

    def level(self, folder: Path, level: int) -> list[Path]:
        """Return the files of a level of a KernelBench checkout. Raises Refused."""
        ...

    def solutions(self, folder: Path) -> list[Solutions]:
        """Return the solutions of every problem directory in a folder. Raises Refused."""
        ...

    def samples(self, problem: Path, slug: str) -> Solutions:
        """Return the solutions of one problem directory, if there are any. Raises Refused."""
        ...

    def exists(self, file: Path) -> bool:
        """Return whether a file or folder exists."""
        ...

    def page(self, name: str) -> str:
        """Return a template that comes with the command line, such as one that `init` writes."""
        ...

    def write(self, file: Path, data: bytes) -> None:
        """Write a file completely or not at all. Raises Refused."""
        ...

    def lay_out(self, folder: Path, files: Mapping[str, bytes]) -> None:
        """Write files into a folder, which is created if necessary. Raises Refused."""
        ...

    async def save(self, folder: Path, name: str, pieces: AsyncIterator[bytes]) -> Path:
        """Save a download completely or not at all, and return its path. Raises Refused."""
        ...


@dataclass(frozen=True)
class LocalRunTerms:
    """How much a local run must be isolated, and where to keep its files."""

    level_min: str = "none"
    save: Path | None = None


class Harness(Protocol):
    """The agents' harness, on this machine."""

    def code(self) -> JsonObject:
        """Return the harness's version, folder and code digest."""
        ...

    def offer(self) -> JsonObject:
        """Return what this machine offers, in the keys of an Offer."""
        ...

    async def run(
        self,
        problem: ProblemFiles,
        submission: SubmissionRequest,
        report_progress: Callable[[Progress], Awaitable[None]],
        terms: LocalRunTerms,
        rival: SubmissionRequest | None = None,
    ) -> JsonObject:
        """Run one submission; return its end in the keys of a run, without a verdict if we fail.

        With a rival it is a duel, and the end also has the key `duel`.
        """
        ...

    async def inspect(self, problem: ProblemFiles) -> JsonObject:
        """Inspect a problem's own code; return findings, or why it could not be inspected."""
        ...

    def warm(self) -> AbstractAsyncContextManager["Harness"]:
        """Return the same with one started harness for all runs, while the context lasts."""
        ...
