"""What ingest needs of the world beside the log and the blobs."""

import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

import msgspec

from shared import subjects
from shared.blobs import Blobs
from shared.clock import now
from shared.deadletters import DeadLetters
from shared.errors import Refused
from shared.event_log import EventLog
from shared.events import RejudgeItem
from shared.reader import Reader

# An account as leaderboards show it where it has no name. No name is so long.
ACCOUNT = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")
# How long the answer to a request under an Idempotency-Key is kept.
REPEATS_KEPT_S = 24 * 3600
# No request takes so long: whoever began it is gone, and its key is free.
LOST_AFTER_S = 60


class People(Protocol):
    """Who the participants are; the log knows them by account alone. All may raise Failed."""

    async def account(self, name: str) -> str:
        """The account of a participant's name, opened when it is new."""
        ...

    async def known(self, name: str) -> str | None:
        """The account of a participant's name, None if nobody has it."""
        ...

    async def name_of(self, account: str) -> str | None:
        """The name of an account, None if it is erased."""
        ...

    async def names(self, after: str, limit: int) -> Sequence[tuple[str, str]]:
        """Accounts with their names, in order, from after an account."""
        ...

    async def rename(self, account: str, name: str) -> bool:
        """Another name for an account, whose own the old one stays; False if it is another's.

        An account whose name was lost gets one.
        """
        ...


class RegisterRow(NamedTuple):
    """Which database the tables of accounts are in, and whether these are not the log's."""

    id: str
    is_lost: bool
    has_participants: bool


class Tables(Protocol):
    """The tables of accounts as a whole. All may raise Failed."""

    async def register_row(self) -> RegisterRow:
        """Which database this is."""
        ...

    async def set_lost(self, *, is_lost: bool) -> None:
        """Let nobody get a name, or let them again."""
        ...

    def forget_names(self) -> None:
        """Remember no name from before: the tables may be others."""
        ...


class Identity(NamedTuple):
    """Who somebody is elsewhere: `discord:1234`."""

    id: str
    provider: str
    subject: str
    account: str
    linked_at: datetime | None = None


class Identities(Protocol):
    """Where participants are known too; a subject is one participant's. All may raise Failed."""

    async def identity_of(self, provider: str, subject: str) -> Identity | None:
        """Whose an identity is."""
        ...

    async def add_identity(self, identity: Identity) -> bool:
        """Keep one; False if it is somebody's already."""
        ...

    async def remove_identity(self, identity: str) -> None:
        """Forget one; harmless to repeat."""
        ...

    async def identities(self, account: str) -> Sequence[Identity]:
        """Those of an account, oldest first."""
        ...


class TokenRow(NamedTuple):
    """What is known of a token beside what the log says."""

    token: str
    account: str
    name: str
    prefix: str
    last_used_at: datetime | None = None


class TokenRows(Protocol):
    """Tokens' names and when they were used; nothing is decided by it. All may raise Failed."""

    async def add_token(self, row: TokenRow) -> None:
        """Keep the name of a token."""
        ...

    async def tokens(self, account: str) -> Sequence[TokenRow]:
        """Those of an account."""
        ...

    async def used(self, tokens: Mapping[str, datetime]) -> None:
        """Note when tokens were used last."""
        ...


class InviteRows(Protocol):
    """The codes of invites, for who made them to see again. All may raise Failed."""

    async def add_invites(self, codes: Mapping[str, str]) -> None:
        """Keep the codes of invites, by invite."""
        ...

    async def codes(self, invites: Sequence[str]) -> Mapping[str, str]:
        """The codes of invites, by invite."""
        ...


class Note(NamedTuple):
    """What participants say of a submission for themselves."""

    note: str | None = None
    tag: str | None = None


class Notes(Protocol):
    """Notes on submissions, for who made them. All may raise Failed."""

    async def has_row(self, account: str) -> bool:
        """Whether an account is in the tables, as what refers to it needs."""
        ...

    async def begin_notes(self, account: str, submissions: Sequence[str], note: Note) -> None:
        """Keep the first note of each, and none where there is one."""
        ...

    async def say_note(self, account: str, submission: str, note: Note) -> None:
        """Keep this one instead."""
        ...


class Asked(NamedTuple):
    """A request under a key: by whom, of what, and when it came."""

    actor: str
    route: str
    key: str
    request_hash: str
    at: datetime


class Kept(NamedTuple):
    """The first request under a key, and what it was answered; no status before it is."""

    request_hash: str
    status: int | None
    body: bytes


class Repeats(Protocol):
    """What was done under keys, for a day. All may raise Failed."""

    async def begin(self, asked: Asked) -> Kept | None:
        """None for the first under its key, which is then to be kept or forgotten."""
        ...

    async def keep(self, asked: Asked, status: int, body: bytes) -> None:
        """What the first was answered."""
        ...

    async def forget(self, asked: Asked) -> None:
        """The first did nothing."""
        ...


class Register(People, Tables, Identities, TokenRows, InviteRows, Notes, Protocol):
    """All that is kept of people beside the log."""


@dataclass(frozen=True)
class Answer:
    """What the read side said."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Stream:
    """An answer of the read side, as it comes."""

    status: int
    headers: dict[str, str]
    pieces: AsyncIterator[bytes]


class Reads(Protocol):
    """Who answers reads, to each reader what they may see."""

    async def read(
        self, path: str, query: str, headers: Mapping[str, str], reader: Reader
    ) -> Answer:
        """Pass one GET on. Errors: Failed if nobody answers."""
        ...

    def stream(
        self, path: str, query: str, headers: Mapping[str, str], reader: Reader
    ) -> AbstractAsyncContextManager[Stream]:
        """Pass a GET on, piece by piece. Errors: Failed if nobody answers or it breaks off."""
        ...


class Wanted(NamedTuple):
    """Which submissions to look for, of one version of a problem."""

    problem: str
    from_version: int
    select: str
    gpu: str | None


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """How long something takes, half of the time and nine times in ten. Units: seconds."""

    p50: float | None = None
    p90: float | None = None


class QueueSeen(msgspec.Struct, frozen=True, kw_only=True):
    """What who submits for a GPU type waits for, as the read side said it at an instant."""

    gpu: str
    waiting: int = 0
    state: str = "queued"
    wait_s: Span | None = None
    run_s: Span | None = None
    agents_online: int = 0
    agents_busy: int = 0
    reason: str | None = None
    as_of: str | None = None


class Lookups(Protocol):
    """What ingest itself asks the read side; it decides on the log, never on these answers."""

    async def submission(self, number: int) -> str:
        """The id of a submission. Errors: Refused `unknown_submission`; Failed."""
        ...

    async def rejudge_items(self, which: Wanted) -> list[RejudgeItem]:
        """The submissions that may run again. Errors: Failed."""
        ...

    async def queue(self, gpu: str) -> QueueSeen:
        """What waits for a GPU type; nothing for one it has not met. Errors: Failed."""
        ...

    async def is_used(self, problem: str) -> bool:
        """Whether anybody ever submitted to a problem. Errors: Failed."""
        ...

    async def gpus_used(self, problem: str) -> frozenset[str]:
        """The GPU types on which a problem has entries, of any version. Errors: Failed."""
        ...


class Snapshots(Protocol):
    """Bytes by name, the newest alone."""

    async def load(self, name: str) -> bytes | None:
        """What was kept last, whole, or None. Errors: Failed."""
        ...

    async def save(self, name: str, data: bytes) -> None:
        """Keep this instead, whole or not at all. Errors: Failed."""
        ...


class Ports(NamedTuple):
    """All that ingest needs of the world."""

    log: EventLog
    blobs: Blobs
    people: Register
    lookups: Lookups
    dead_letters: DeadLetters
    clock: Callable[[], datetime] = now


async def account_of(people: People, log: EventLog, name: str) -> str:
    """The account of a known participant, by name or, where that was lost, by the account itself.

    Errors: Refused `unknown_participant`; Failed.
    """
    account = await people.known(name)
    if account is not None:
        return account
    if not ACCOUNT.match(name):
        raise Refused("unknown_participant", f"there is no participant {name!r}", "participant")
    if await people.name_of(name) is not None:
        return name
    for agg in (subjects.account(name), subjects.quota(name)):
        if await log.history(agg):
            return name
    raise Refused("unknown_participant", f"there is no account {name}", "participant")
