"""The ports of ingest beside the log and the blobs."""

import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

from shared import subjects
from shared.api.contest_standings import ContestStanding
from shared.api.evaluations import CachedVerdictFound, EvaluationResult
from shared.api.queues import QueueOfGpu
from shared.api.webhooks import Delivery, Webhook
from shared.blobs import BlobStore
from shared.bus import DeadLetters
from shared.clock import now
from shared.errors import Refused
from shared.event_log import EventLog
from shared.events import AccountMerged, MergeUndone, RejudgeItem
from shared.reader import Reader

# An account as leaderboards show it when it has no name. No name is that long.
ACCOUNT = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")
# How long the response to a request under an Idempotency-Key is kept.
REPEATS_KEPT_S = 24 * 3600
# No request takes this long: its process died, and its key is free again.
LOST_AFTER_S = 60


class RegisterRow(NamedTuple):
    """Which database the tables of accounts are in, and whether they are not the log's."""

    id: str
    is_lost: bool
    has_participants: bool


class Identity(NamedTuple):
    """An account at another provider, such as `discord:1234`."""

    id: str
    provider: str
    subject: str
    account: str
    linked_at: datetime | None = None


class TokenRow(NamedTuple):
    """What the database holds of a token, beside the log."""

    token: str
    account: str
    name: str
    prefix: str
    last_used_at: datetime | None = None


class Note(NamedTuple):
    """A participant's private note on a submission."""

    note: str | None = None
    tag: str | None = None


class IdempotentRequest(NamedTuple):
    """A request under an Idempotency-Key: its actor, route and time."""

    actor: str
    route: str
    key: str
    request_hash: str
    at: datetime


class StoredResponse(NamedTuple):
    """The first request under a key and its response; `status` is None until it is answered."""

    request_hash: str
    status: int | None
    body: bytes


class IdempotencyStore(Protocol):
    """Requests under Idempotency-Keys and their responses, for a day. All may raise `Failed`."""

    async def begin(self, request: IdempotentRequest) -> StoredResponse | None:
        """Return None for the first request under its key; it must then be kept or forgotten."""

    async def keep(self, request: IdempotentRequest, status: int, body: bytes) -> None:
        """Store the response to the first request."""

    async def forget(self, request: IdempotentRequest) -> None:
        """Free the key of a request that changed nothing."""


class AccountStore(Protocol):
    """All that is stored about participants beside the log. All methods may raise `Failed`."""

    async def open_account(self, name: str) -> str:
        """Return the account of a name, opened if the name is new."""

    async def find_account(self, name: str) -> str | None:
        """Return the account of a name, or None."""

    async def name_of(self, account: str) -> str | None:
        """Return the name of an account, None if it is erased."""

    async def names_of(self, accounts: Sequence[str]) -> Mapping[str, str]:
        """Return the names of accounts, without those that are erased."""

    async def names(self, after: str, limit: int) -> Sequence[tuple[str, str]]:
        """Return a page of accounts with their names, in order, after an account."""

    async def personal_names(self) -> Sequence[str]:
        """Return every name that participants have or had, and their ids on other systems."""

    async def rename(self, account: str, name: str) -> bool:
        """Rename an account or give it a name again; False if another account has or had it."""

    async def register_row(self) -> RegisterRow:
        """Return the register of this database."""

    async def set_lost(self, *, is_lost: bool) -> None:
        """Refuse new names, or allow them again."""

    async def identity_of(self, provider: str, subject: str) -> Identity | None:
        """Return the identity with this provider and subject."""

    async def add_identity(self, identity: Identity) -> bool:
        """Store an identity; False if it belongs to somebody already."""

    async def remove_identity(self, identity: str) -> None:
        """Remove an identity; harmless to repeat."""

    async def identities(self, account: str) -> Sequence[Identity]:
        """Return the identities of an account, oldest first."""

    async def add_token(self, row: TokenRow) -> None:
        """Store the name of a token."""

    async def tokens(self, account: str) -> Sequence[TokenRow]:
        """Return the rows of an account."""

    async def record_usage(self, tokens: Mapping[str, datetime]) -> None:
        """Store when tokens were last used."""

    async def add_invites(self, codes: Mapping[str, str]) -> None:
        """Store the codes of invites, by invite."""

    async def codes(self, invites: Sequence[str]) -> Mapping[str, str]:
        """Return the codes of invites, by invite."""

    async def has_row(self, account: str) -> bool:
        """Return whether an account is in the tables, which rows that refer to it need."""

    async def begin_notes(self, account: str, submissions: Sequence[str], note: Note) -> None:
        """Store a first note on each submission that has none."""

    async def set_note(self, account: str, submission: str, note: Note) -> None:
        """Replace a note."""


@dataclass(frozen=True)
class ReadResponse:
    """A response of the read side."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class ReadStream:
    """A response of the read side, as it arrives."""

    status: int
    headers: dict[str, str]
    pieces: AsyncIterator[bytes]


class ReadProxy(Protocol):
    """Answers reads; each reader gets what they may see."""

    async def read(
        self, path: str, query: str, headers: Mapping[str, str], reader: Reader
    ) -> ReadResponse:
        """Forward one GET. Raises `Failed` if there is no answer."""

    async def post(self, path: str, body: bytes, reader: Reader) -> ReadResponse:
        """Forward a read whose query is a JSON body. Raises `Failed` if there is no answer."""

    def stream(
        self, path: str, query: str, headers: Mapping[str, str], reader: Reader
    ) -> AbstractAsyncContextManager[ReadStream]:
        """Forward one GET, piece by piece. Raises `Failed`, also if it breaks off."""


class Lookups(Protocol):
    """What ingest itself asks the read side; only the parent of a submission depends on it."""

    async def submission(self, number: int) -> str:
        """Return the id of a submission. Raises `Refused` (`unknown_submission`) and `Failed`."""

    async def problem_of(self, number: int, reader: Reader) -> str | None:
        """Return the problem of a submission, None if the reader sees none. Raises `Failed`."""

    async def rejudge_items(
        self, problem: str, select: str, from_version: int, gpu: str | None
    ) -> list[RejudgeItem]:
        """Return the submissions that may run again. Raises `Failed`."""

    async def queue(self, gpu: str, mode: str) -> QueueOfGpu | None:
        """Return the queue of a GPU type for a mode, None for an unknown one. Raises `Failed`."""

    async def verdicts(
        self, sources: Sequence[str], problem_digest: str, gpu: str
    ) -> list[CachedVerdictFound]:
        """Return the known verdicts of sources, by their digests. Raises `Failed`."""

    async def results(self, evaluation: str) -> list[EvaluationResult]:
        """Return the results that an evaluation has. Raises `Failed`."""

    async def is_used(self, problem: str) -> bool:
        """Return whether a problem ever had a submission. Raises `Failed`."""

    async def gpus_used(self, problem: str) -> frozenset[str]:
        """Return the GPU types on which any version of a problem has entries. Raises `Failed`."""

    async def contest_standing(self, slug: str, round_: str | None) -> ContestStanding:
        """Return the standing of a contest as organisers see it, by default of its newest round.

        Raises `Failed`.
        """


@dataclass(frozen=True)
class Ports:
    """All ports of ingest."""

    log: EventLog
    blobs: BlobStore
    account_store: AccountStore
    lookups: Lookups
    dead_letters: DeadLetters
    clock: Callable[[], datetime] = now


async def resolve_account(account_store: AccountStore, log: EventLog, name: str) -> str:
    """Return the account of a participant, by name or by account; that which it is part of.

    Raises `Refused` (`unknown_participant`) and `Failed`.
    """
    account = into = await find_own_account(account_store, log, name)
    for event in await log.history(subjects.account(account)):
        match event.fact:
            case AccountMerged(into=into):
                pass
            case MergeUndone():
                into = account
    return into


async def find_own_account(account_store: AccountStore, log: EventLog, name: str) -> str:
    """Return the account with a name or id, even if it is part of another one.

    Raises `Refused` (`unknown_participant`) and `Failed`.
    """
    account = await account_store.find_account(name)
    if account is not None:
        return account
    if not ACCOUNT.match(name):
        raise Refused("unknown_participant", f"there is no participant {name!r}", "participant")
    if await account_store.name_of(name) is not None:
        return name
    for aggregate in (subjects.account(name), subjects.quota(name)):
        if await log.history(aggregate):
            return name
    raise Refused("unknown_participant", f"there is no account {name}", "participant")


class NewWebhook(NamedTuple):
    """A webhook to add; its secret is generated unless it is given."""

    url: str
    kinds: Sequence[str]
    problems: Sequence[str] = ()
    secret: str | None = None


class WebhookStore(Protocol):
    """Stores webhooks with their secrets and deliveries. All methods may raise `Failed`."""

    async def add(self, account: str, id_: str, webhook: NewWebhook, webhooks_max: int) -> bool:
        """Store a webhook that is not in the log yet; False if the account has too many."""

    async def keep(self, id_: str, seq: int) -> None:
        """Store that it is in the log; it is notified of later events."""

    async def forget(self, id_: str) -> None:
        """Remove a webhook and its deliveries; harmless to repeat."""

    async def listed(self, account: str) -> Sequence[Webhook]:
        """Return the webhooks of an account that are in the log, oldest first."""

    async def test(self, id_: str, event: str) -> None:
        """Send a test event once."""

    async def deliveries(self, id_: str, before: int, limit: int) -> Sequence[Delivery]:
        """Return its deliveries before a number, newest first."""
