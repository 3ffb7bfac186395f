"""What ingest needs of the world beside the log and the blobs."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

from shared.blobs import Blobs
from shared.clock import now
from shared.deadletters import DeadLetters
from shared.errors import Refused
from shared.event_log import EventLog
from shared.events import RejudgeItem


class People(Protocol):
    """Who the participants are; the log knows them by account alone."""

    async def account(self, name: str) -> str:
        """The account of a participant's name, opened when it is new."""
        ...

    async def known(self, name: str) -> str | None:
        """The account of a participant's name, None if nobody has it."""
        ...


@dataclass(frozen=True)
class Answer:
    """What the read side said."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Stream:
    """A download from the read side, as it comes."""

    status: int
    headers: dict[str, str]
    pieces: AsyncIterator[bytes]


class Reads(Protocol):
    """Who answers reads."""

    async def read(self, path: str, query: str, headers: Mapping[str, str]) -> Answer:
        """Pass one GET on. Errors: Failed if nobody answers."""
        ...

    def stream(self, path: str) -> AbstractAsyncContextManager[Stream]:
        """Pass a download on, piece by piece. Errors: Failed if nobody answers or it breaks off."""
        ...


class Wanted(NamedTuple):
    """Which submissions to look for, of one version of a problem."""

    problem: str
    from_version: int
    select: str
    gpu: str | None


class Lookups(Protocol):
    """What ingest itself asks the read side; it decides on the log, never on these answers."""

    async def submission(self, number: int) -> str:
        """The id of a submission. Errors: Refused `unknown_submission`; Failed."""
        ...

    async def rejudge_items(self, which: Wanted) -> list[RejudgeItem]:
        """The submissions that may run again. Errors: Failed."""
        ...


class Ports(NamedTuple):
    """All that ingest needs of the world."""

    log: EventLog
    blobs: Blobs
    people: People
    lookups: Lookups
    dead_letters: DeadLetters
    clock: Callable[[], datetime] = now


async def account_of(people: People, name: str) -> str:
    """The account of a known participant. Errors: Refused `unknown_participant`."""
    account = await people.known(name)
    if account is None:
        raise Refused("unknown_participant", f"there is no participant {name!r}", "participant")
    return account
