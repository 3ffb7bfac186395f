"""What the edge's loops need of the platform, of Discord and of its own table."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from discord_edge.domain.report import Card
from discord_edge.domain.status import Status
from discord_edge.domain.wishes import Wish
from shared.telling.answers import Answer


@dataclass(frozen=True)
class User:
    """Somebody on Discord, by their id, what they are called there, and which roles they show."""

    id: int
    name: str = ""
    roles: tuple[str, ...] = ()


@dataclass(frozen=True)
class Post:
    """A submission that is told of: whose, where, and by which messages; None is not yet.

    `first` is the first number of the same command, with which it shares a thread; `case` is the
    only one that was asked for, from 1 on, 0 for all.
    """

    number: int
    person: str
    channel: str
    problem: str
    gpu: str
    mode: str
    first: int = 0
    thread: str | None = None
    status: str | None = None
    report: str | None = None
    case: int = 0


@dataclass(frozen=True)
class Heard:
    """One thing that a stream said."""

    kind: str
    said: dict[str, Any]


@dataclass(frozen=True)
class Sent:
    """A command that was promised an answer: what it sends, for whom, from where, by which key."""

    key: str
    user: User
    channel: str
    wish: Wish


class Api(Protocol):
    """The platform, asked for somebody; None is nobody in particular."""

    @property
    def public_url(self) -> str:
        """The address by which people find it, without a slash at its end; empty if unknown."""
        ...

    async def get(self, user: User | None, *path: str | int, **query: str | int) -> Answer:
        """What a read under /v1 answers. Errors: Refused; Failed."""
        ...

    async def file(self, user: User | None, path: str) -> bytes:
        """A small file, whole. Errors: as get."""
        ...

    async def submit(self, user: User, wish: Wish, key: str) -> Answer:
        """The receipts of a submission. Errors: as get."""
        ...

    async def act(self, user: User, key: str, *path: str | int, **said: object) -> Answer:
        """What a POST under /v1 answers, done once for a key. Errors: as get."""
        ...

    def events(self, user: User, number: int, after: int) -> AsyncIterator[Heard]:
        """What happens to a submission, from after a place. Errors: as get."""
        ...


class Rooms(Protocol):
    """Threads and messages on Discord.

    Errors of each: Failed for what may go better later, Refused for what is gone for good.
    """

    async def active(self, channel: str) -> int:
        """How many threads are open on the server of a channel."""
        ...

    async def reopen(self, room: str, post: Post) -> None:
        """Open a thread of before to its person; letters, and what is locked, are Refused."""
        ...

    async def enter(self, post: Post, name: str) -> str:
        """The private thread of a post, a new one, or its person's letters where none can be."""
        ...

    async def letters(self, post: Post) -> str:
        """Where its person gets letters."""
        ...

    async def say(self, room: str, text: str, nonce: str, post: Post) -> str:
        """A new message by which a submission can be cancelled, once for a nonce. Its id."""
        ...

    async def edit(self, room: str, message: str, status: Status, post: Post) -> None:
        """Where a submission is now; what is being cancelled, or over, is not cancelled again."""
        ...

    async def show(self, room: str, card: Card, nonce: str, post: Post) -> str:
        """A new message with the card of what is over, or the one that is there. Its id."""
        ...

    async def close(self, room: str) -> None:
        """Close a thread; who writes in it opens it again. Letters stay as they are."""
        ...


class Posts(Protocol):
    """Which submission has which messages. Errors of each: Failed."""

    async def add(self, post: Post) -> None:
        """Begin to follow one."""
        ...

    async def keep(self, number: int, what: str, value: str) -> None:
        """Keep the id of its `thread`, `status` or `report`, or why it `ended`."""
        ...

    async def open(self) -> list[Post]:
        """Those that are still told of."""
        ...

    async def group(self, first: int) -> list[Post]:
        """What was submitted by one command, by its first number."""
        ...

    async def former(self, post: Post) -> str | None:
        """The newest thread of another submission of its person to its problem, if any."""
        ...

    async def want(self, sent: Sent) -> None:
        """Keep what is sent until its answer is kept."""
        ...

    async def unwant(self, key: str) -> None:
        """Its answer is kept, or it was refused."""
        ...

    async def wanted(self) -> list[Sent]:
        """What was sent, and whose answer nobody kept."""
        ...


# Who hears where a submission is, and in which room it is told, "" for none; it never fails.
Seen = Callable[[Status, str], None]
