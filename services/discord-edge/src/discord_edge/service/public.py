"""What the announcer needs of Discord and of its own tables."""

from typing import NamedTuple, Protocol

from discord_edge.domain.news import Facts


class Moved(NamedTuple):
    """A leaderboard whose podium is not as it was told, as of an event."""

    problem: str
    gpu: str
    seq: int
    is_record: bool
    # The accounts that were ahead when it was told last, None if no event said.
    before: list[str] | None = None


class Told(NamedTuple):
    """The post of a problem, and what it says."""

    thread: str
    facts: Facts


class Slip(NamedTuple):
    """What somebody is told, and the submission of theirs that they may appeal for by it."""

    text: str
    appeal: int | None = None


class Begun(NamedTuple):
    """What is about to be said, and the message after which it is looked for."""

    text: str
    after: str


class Recall(Protocol):
    """What is said in a room, as Discord keeps it. Errors of each: as of Town."""

    async def newest(self, room: str) -> str:
        """The newest message, whoever said it; "0" if there is none."""
        ...

    async def said(self, room: str, begun: Begun) -> str | None:
        """The message with a text that the bot itself said after another one."""
        ...


class Mail(Protocol):
    """Messages to one participant. Errors of each: as of Town."""

    async def room(self, whom: str) -> str:
        """Where somebody gets letters."""
        ...

    async def write(self, room: str, whom: str, slip: Slip, nonce: str) -> str:
        """A message to somebody, who alone is called by it, once for a nonce. Its id."""
        ...


class Town(Protocol):
    """The places on Discord that everybody sees.

    Errors of each: Failed for what may go better later, Refused for what never will.
    """

    async def lines(self) -> str:
        """Where results and podiums are told."""
        ...

    async def begin(self, message: str, name: str) -> str:
        """The thread that begins at a line. Its id."""
        ...

    async def tell(self, thread: str, text: str, nonce: str) -> str:
        """A message in a thread or post, once for a nonce. Its id."""
        ...

    async def open(self, name: str, text: str, *, is_first: bool) -> str:
        """The post with a name, a new one if there is none; the first calls who asked for it."""
        ...

    async def change(self, thread: str, text: str) -> None:
        """Another text for the first message of a post."""
        ...


class Ledger(Protocol):
    """What was made and told. Errors of each: Failed."""

    async def made(self, name: str) -> str | None:
        """The id of what was made under a name."""
        ...

    async def keep(self, name: str, identity: str) -> None:
        """Keep the id of what was made under a name: it is about to be said no more."""
        ...

    async def begun(self, name: str, room: str) -> Begun | None:
        """What was about to be said in a room under a name."""
        ...

    async def begin(self, name: str, room: str, begun: Begun) -> None:
        """Keep what is about to be said."""
        ...

    async def room(self, number: int) -> str | None:
        """Where a submission is told to its owner."""
        ...

    async def newest_room(self, person: str, problem: str) -> str | None:
        """Where the newest submission of somebody to a problem is told."""
        ...

    async def board(self, problem: str) -> Told | None:
        """The post of a problem."""
        ...

    async def set_board(self, problem: str, told: Told) -> None:
        """Keep the post of a problem."""
        ...

    async def boards(self) -> dict[str, Facts]:
        """What the posts say."""
        ...

    async def moved(self, moved: Moved) -> None:
        """A podium changed."""
        ...

    async def due(self, every_s: float, quiet_s: float) -> list[Moved]:
        """Podiums that are to be told of now."""
        ...

    async def telling(self, moved: Moved) -> None:
        """A podium is being told of, as of its event; until it was, no later one is due."""
        ...

    async def told(self, moved: Moved) -> None:
        """A podium was told of."""
        ...
